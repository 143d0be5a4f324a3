import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { ExternalServer } from "./external-server.js";
import { freePort } from "./network.js";
import { makeTempFolder } from "./run-tool.js";

/** Starts HAProxy with deploy/haproxy.cfg in front of two gateways, given as `host:port`. Returns its URL. */
export async function startHaproxy(binary: string, [first, second]: [string, string]): Promise<string> {
  const port = await freePort();
  const config = join(await makeTempFolder("haproxy"), "haproxy.cfg");
  const example = await readFile(join(packageRoot(), "deploy/haproxy.cfg"), "utf8");
  const replacements = [
    ["bind :80", `bind 127.0.0.1:${port}`],
    ["10.0.0.11:3000", first],
    ["10.0.0.12:3000", second],
  ] as const;
  const text = replacements.reduce((changed, [from, to]) => {
    expect(changed.split(from), from).toHaveLength(2);
    return changed.replace(from, to);
  }, example);
  await writeFile(config, text);
  await new ExternalServer(binary, ["-f", config], port).start();
  return `http://127.0.0.1:${port}`;
}
