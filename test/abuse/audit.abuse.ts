import { spawn } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeTempFolder } from "../support/run-tool.js";

/** Starts a fake npm registry and returns its address. */
async function startRegistry(onRequest: RequestListener): Promise<string> {
  const server = createServer(onRequest);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

async function runAudit(
  url: string,
  env: Record<string, string> = {},
): Promise<{ output: string; code: number | null }> {
  // A separate cache, because npm caches advisories.
  const npm_config_cache = await makeTempFolder("npm");
  const { PATH, HOME } = process.env;
  const child = spawn(process.execPath, [join(packageRoot(), ".ci/audit.mjs")], {
    cwd: packageRoot(),
    env: { PATH, HOME, npm_config_registry: url, npm_config_cache, npm_config_fetch_retries: "0", ...env },
  });
  let output = "";
  child.stdout.on("data", (text) => {
    output += text;
  });
  return new Promise((resolve) => child.once("close", (code) => resolve({ output, code })));
}

const startRegistryWithAdvisory = (severity: string) =>
  startRegistry((req, res) => {
    const advisory = { id: 1, url: "https://example.com/1", title: "x", severity, vulnerable_versions: "*" };
    res.setHeader("Content-Type", "application/json");
    if (req.method === "POST") res.end(JSON.stringify({ express: [advisory] }));
    else
      res.end(
        JSON.stringify({ name: decodeURIComponent(String(req.url).slice(1)), versions: {}, "dist-tags": {} }),
      );
  });

it("a high-severity vulnerability fails the audit, a low-severity one does not", async () => {
  const high = await runAudit(await startRegistryWithAdvisory("high"));
  expect(high.output).toMatch(/^high: express /m);
  expect(high.code).toBe(1);
  console.info(high.output.trim());
  const low = await runAudit(await startRegistryWithAdvisory("low"));
  expect(low.output).toMatch(/^Audited \d{3,} dependencies: 0 of high or critical severity, [1-9]/m);
  expect(low.code).toBe(0);
});

it("if the registry does not support audits, the audit prints DEPENDENCIES NOT AUDITED, and fails only with AUDIT=required", async () => {
  const url = await startRegistry((_req, res) => void res.writeHead(405).end());
  for (const [env, code] of [
    [{}, 0],
    [{ AUDIT: "required" }, 1],
  ] as const) {
    const outcome = await runAudit(url, env);
    expect(outcome.output).toMatch(/^DEPENDENCIES NOT AUDITED: 405/);
    expect(outcome.code).toBe(code);
  }
});
