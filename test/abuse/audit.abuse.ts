import { spawn } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { ownFolder } from "./tool.js";

/** A registry of the test's own. */
async function registry(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function audit(
  url: string,
  env: Record<string, string> = {},
): Promise<{ said: string; code: number | null }> {
  // npm remembers advisories, and must not remember these.
  const npm_config_cache = await ownFolder("npm");
  const { PATH, HOME } = process.env;
  const child = spawn(process.execPath, [join(packageRoot(), ".ci/audit.mjs")], {
    cwd: packageRoot(),
    env: { PATH, HOME, npm_config_registry: url, npm_config_cache, npm_config_fetch_retries: "0", ...env },
  });
  let said = "";
  child.stdout.on("data", (text) => {
    said += text;
  });
  return new Promise((resolve) => child.once("close", (code) => resolve({ said, code })));
}

const advisories = (severity: string) =>
  registry((req, res) => {
    const advisory = { id: 1, url: "https://example.com/1", title: "x", severity, vulnerable_versions: "*" };
    res.setHeader("Content-Type", "application/json");
    if (req.method === "POST") res.end(JSON.stringify({ express: [advisory] }));
    else
      res.end(
        JSON.stringify({ name: decodeURIComponent(String(req.url).slice(1)), versions: {}, "dist-tags": {} }),
      );
  });

it("a vulnerability of high severity fails the audit, a lesser one does not", async () => {
  const high = await audit(await advisories("high"));
  expect(high.said).toMatch(/^high: express /m);
  expect(high.code).toBe(1);
  console.info(high.said.trim());
  const low = await audit(await advisories("low"));
  expect(low.said).toMatch(/^Audited \d{3,} dependencies: 0 of high or critical severity, [1-9]/m);
  expect(low.code).toBe(0);
});

it("an audit that could not be made is said to be none, and fails where it is required", async () => {
  const url = await registry((_req, res) => void res.writeHead(405).end());
  for (const [env, code] of [
    [{}, 0],
    [{ AUDIT: "required" }, 1],
  ] as const) {
    const outcome = await audit(url, env);
    expect(outcome.said).toMatch(/^DEPENDENCIES NOT AUDITED: 405/);
    expect(outcome.code).toBe(code);
  }
});
