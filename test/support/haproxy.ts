import { chmod, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { findCommand } from "./describe-with-binary.js";
import { ExternalServer } from "./external-server.js";
import { restartablePort } from "./network.js";
import { makeTempFolder } from "./run-tool.js";

/**
 * Starts HAProxy with a file of `deploy`, in which the keys of `replace` are replaced, and waits until it accepts connections
 * on this port.
 */
async function start(name: string, port: number, replace: Record<string, string>): Promise<void> {
  const path = join(await makeTempFolder("haproxy"), name);
  await chmod(dirname(path), 0o755);
  let config = await readFile(join(packageRoot(), "deploy", name), "utf8");
  for (const [from, to] of Object.entries(replace)) {
    expect(config, name).toContain(from);
    config = config.replaceAll(from, to);
  }
  await writeFile(path, config);
  const binary = findCommand("haproxy");
  if (!binary) throw new Error("HAProxy is missing: apt-get install haproxy.");
  await new ExternalServer(binary, ["-f", path], port).start();
}

/** The replacement that binds to this port. */
const bindTo = (bind: string, port: number) => ({ [`bind ${bind}\n`]: `bind 127.0.0.1:${port}\n` });

/** Starts HAProxy in front of two gateways, given as `host:port`. Returns its URL. */
export async function startHaproxy([first, second]: [string, string]): Promise<string> {
  const port = await restartablePort();
  const replace = { ...bindTo(":80", port), "10.0.0.11:3000": first, "10.0.0.12:3000": second };
  await start("haproxy.cfg", port, replace);
  return `http://127.0.0.1:${port}`;
}

/** Starts HAProxy in front of a primary and its standby, given as `host:port`. Returns its `host:port`. */
export async function startPostgresHaproxy([first, second]: [string, string]): Promise<string> {
  const port = await restartablePort();
  const replace = { ...bindTo(":5432", port), "10.0.0.21:5432": first, "10.0.0.22:5432": second };
  await start("haproxy-postgres.cfg", port, replace);
  return `127.0.0.1:${port}`;
}

/** A node of Patroni: ports of 127.0.0.1 of its Postgres and its REST API. */
export interface PatroniPorts {
  postgres: number;
  rest: number;
}

/** Starts HAProxy in front of three nodes of Patroni. Returns the `host:port` of the primary and the synchronous standby. */
export async function startPatroniHaproxy(nodes: PatroniPorts[]): Promise<{ primary: string; standby: string }> {
  const [primary, standby] = [await restartablePort(), await restartablePort()];
  const servers = nodes.map(({ postgres, rest }, n) => [
    `10.0.0.2${n + 1}:5432 port 8008`,
    `127.0.0.1:${postgres} port ${rest}`,
  ]);
  const replace = { ...bindTo(":5432", primary), ...bindTo(":5433", standby), ...Object.fromEntries(servers) };
  await start("haproxy-patroni.cfg", primary, replace);
  return { primary: `127.0.0.1:${primary}`, standby: `127.0.0.1:${standby}` };
}
