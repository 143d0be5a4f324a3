import { chmod, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { findCommand } from "./describe-with-binary.js";
import { ExternalServer } from "./external-server.js";
import { restartablePort } from "./network.js";
import { makeTempFolder } from "./run-tool.js";

/** Starts HAProxy with a file of `deploy`, in which the keys of `addresses` are replaced. Returns its `host:port`. */
async function start(name: string, bind: string, addresses: Record<string, string>): Promise<string> {
  const port = await restartablePort();
  const path = join(await makeTempFolder("haproxy"), name);
  await chmod(dirname(path), 0o755);
  let config = await readFile(join(packageRoot(), "deploy", name), "utf8");
  for (const [from, to] of Object.entries({ [`bind ${bind}`]: `bind 127.0.0.1:${port}`, ...addresses })) {
    expect(config.split(from), from).toHaveLength(2);
    config = config.replace(from, to);
  }
  await writeFile(path, config);
  const binary = findCommand("haproxy");
  if (!binary) throw new Error("HAProxy is missing: apt-get install haproxy.");
  await new ExternalServer(binary, ["-f", path], port).start();
  return `127.0.0.1:${port}`;
}

/** Starts HAProxy in front of two gateways, given as `host:port`. Returns its URL. */
export const startHaproxy = async ([first, second]: [string, string]): Promise<string> =>
  `http://${await start("haproxy.cfg", ":80", { "10.0.0.11:3000": first, "10.0.0.12:3000": second })}`;

/** Starts HAProxy in front of a primary and its standby, given as `host:port`. Returns its `host:port`. */
export const startPostgresHaproxy = ([first, second]: [string, string]): Promise<string> =>
  start("haproxy-postgres.cfg", ":5432", { "10.0.0.21:5432": first, "10.0.0.22:5432": second });
