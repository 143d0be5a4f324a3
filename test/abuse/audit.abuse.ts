import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { listenLocally } from "../support/network.js";
import { makeTempFolder } from "../support/run-tool.js";

/** Runs the audit with a registry that answers with `respond`. */
async function runAudit(respond: RequestListener, env: Record<string, string> = {}) {
  const server = createServer(respond);
  const npm_config_registry = `http://127.0.0.1:${await listenLocally(server)}/`;
  // A separate cache, because npm caches advisories.
  const npm_config_cache = await makeTempFolder("npm");
  const { PATH, HOME } = process.env;
  const child = spawn(process.execPath, [join(packageRoot(), ".ci/audit.mjs")], {
    cwd: packageRoot(),
    env: { PATH, HOME, npm_config_registry, npm_config_cache, npm_config_fetch_retries: "0", ...env },
  });
  let output = "";
  child.stdout.on("data", (text) => {
    output += text;
  });
  const [code] = await once(child, "close");
  server.close().closeAllConnections();
  return { output, code };
}

const withAdvisory =
  (severity: string): RequestListener =>
  ({ method, url = "" }, response) => {
    const advisory = { id: 1, url: "https://example.com/1", title: "x", severity, vulnerable_versions: "*" };
    const metadata = { name: decodeURIComponent(url.slice(1)), versions: {}, "dist-tags": {} };
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(method === "POST" ? { express: [advisory] } : metadata));
  };

const withoutAudits: RequestListener = (_, response) => void response.writeHead(405).end();

it("a high-severity vulnerability fails the audit, a low-severity one does not", async () => {
  const high = await runAudit(withAdvisory("high"));
  expect(high).toMatchObject({ code: 1, output: expect.stringMatching(/^high: express /m) });
  const low = await runAudit(withAdvisory("low"));
  expect(low.output).toMatch(/^Audited \d{3,} dependencies: 0 of high or critical severity, [1-9]/m);
  expect(low.code).toBe(0);
});

it("if the registry does not support audits, the audit prints DEPENDENCIES NOT AUDITED, and fails only with AUDIT=required", async () => {
  const output = expect.stringMatching(/^DEPENDENCIES NOT AUDITED: 405/);
  expect(await runAudit(withoutAudits)).toEqual({ output, code: 0 });
  expect(await runAudit(withoutAudits, { AUDIT: "required" })).toEqual({ output, code: 1 });
});
