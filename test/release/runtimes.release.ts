import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as readBody } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { errorEnvelope, passThrough, resetAfterProcessing, truncatedBody } from "../sdk/fault-proxy.js";
import { useGateway } from "../sdk/setup.js";
import { afterFile } from "../support/after-file.js";
import { listenLocally } from "../support/network.js";
import { makeTempFolder } from "../support/run-tool.js";

const run = promisify(execFile);
const DENO = ["deno", "run", "--allow-net", "--no-prompt", "--no-config"];

/** Runs a program of a package from npm. */
const runFromNpm = (npmPackage: string, command: string[]) => {
  // Bun's package installs its binary with an install script.
  const options = ["--yes", "--prefer-offline", "--allow-scripts=bun", `--package=${npmPackage}`];
  return run("npm", ["exec", ...options, "--", ...command], {
    cwd: tmpdir(),
    env: { ...process.env, npm_config_ignore_scripts: "false" },
    timeout: 360_000,
  });
};

/** Skips the test, or fails it in CI. */
function skipMissing(skip: (why: string) => void, what: string): void {
  if (process.env.CI) throw new Error(`${what} is missing`);
  skip(`${what} is not available`);
}

let page: string;
let report: (text: string) => void = () => {};
const pages = createServer(async (request, response) => {
  if (request.method === "POST") report(await readBody(request));
  response.writeHead(200, { "content-type": "text/html" }).end(page);
});
const origin = `http://127.0.0.1:${await listenLocally(pages)}`;
afterFile(() => pages.close().closeAllConnections());

// Browsers may call only from the page's origin; other runtimes send no origin.
const context = await useGateway({ CORS_ORIGINS: origin });
const directory = await makeTempFolder("runtimes");
let year = 2050;

/** Bundles smoke.ts into one script. `report` is the code that outputs its JSON, `text`. */
async function bundleSmoke(report: string): Promise<string> {
  const checkInDate = `${year++}-01-01T14:00:00Z`;
  const options = { apiKey: context.readWrite, baseUrl: context.proxy.url, checkInDate };
  const contents = `import { smoke } from "../sdk/smoke.ts";
    smoke(${JSON.stringify(options)})
      .then(JSON.stringify, (error) => String(error.stack))
      .then((text) => ${report});`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: fileURLToPath(new URL(".", import.meta.url)) },
    bundle: true,
    minify: true,
    format: "iife",
    write: false,
  });
  return outputFiles[0]?.text ?? "";
}

/** Runs smoke.ts while the first list fails twice and the response of the first create is lost. */
async function expectSmokePasses(start: () => Promise<string>) {
  const before = (await context.forms()).length;
  const faults = [errorEnvelope(503, "INTERNAL_ERROR"), truncatedBody, passThrough, resetAfterProcessing];
  context.proxy.injectNext(...faults);
  const text = await start();
  expect(text).toMatch(/^\{/);
  const checks = Object.entries(JSON.parse(text) as Record<string, boolean>);
  expect(checks.filter(([, passed]) => !passed)).toEqual([]);
  expect(checks.length).toBeGreaterThan(10);
  expect((await context.forms()).length - before).toBe(2);
}

test.for([
  { name: "Node.js", npmPackage: "node", command: [process.execPath] },
  { name: "Deno", npmPackage: "deno@2", command: DENO },
  { name: "Bun", npmPackage: "bun@^1.2", command: ["bun", "run"] },
])("the SDK works in $name", { timeout: 300_000 }, async ({ name, npmPackage, command }, { skip }) => {
  const [program = "", ...args] = command;
  const file = join(directory, "smoke.mjs");
  await writeFile(file, await bundleSmoke("console.log(text)"));
  // A runtime that is not installed is run from npm, or skipped if npm cannot provide it.
  const starts = [
    (...more: string[]) => run(program, more, { timeout: 120_000 }),
    (...more: string[]) => runFromNpm(npmPackage, [program, ...more]),
  ];
  await expectSmokePasses(async () => {
    for (const start of starts) {
      const version = await start("--version").catch(() => undefined);
      if (!version) continue;
      console.log(`${name}: ${version.stdout.split("\n")[0]}`);
      return (await start(...args, file)).stdout;
    }
    skipMissing(skip, name);
    return "";
  });
});

test("the SDK works in headless Chromium, from a page of another origin", { timeout: 360_000 }, async ({ skip }) => {
  let browser = "";
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    const found = await run(name, ["--version"]).catch(() => undefined);
    if (found) browser ||= name;
    if (found) console.log(found.stdout.trim());
  }
  if (!browser) return skipMissing(skip, "Chromium");
  const script = await bundleSmoke('fetch("/", { method: "POST", body: text })');
  page = `<!doctype html><meta charset="utf-8"><script>${script.replaceAll("</script", "<\\/script")}</script>`;
  await expectSmokePasses(async () => {
    const reported = new Promise<string>((resolve) => {
      report = resolve;
    });
    const profile = `--user-data-dir=${join(directory, "profile")}`;
    const args = ["--headless", "--no-sandbox", "--disable-gpu", profile, origin];
    const child = spawn(browser, args, { stdio: "ignore" });
    const ended = once(child, "close");
    try {
      return await Promise.race([reported, ended.then(() => "Chromium ended")]);
    } finally {
      child.kill();
      await ended;
    }
  });
  const [request] = context.proxy.requests.filter(({ method }) => method === "POST");
  expect(request?.headers["x-guest-forms-client"]).toMatch(/^guest-forms-sdk\//);
  expect(request?.headers["user-agent"]).toMatch(/^Mozilla\//);
});
