import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as readBody } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeTempFolder } from "../support/run-tool.js";
import { errorEnvelope, passThrough, resetAfterProcessing, truncatedBody } from "./fault-proxy.js";
import { useGateway } from "./setup.js";

// A runtime that is not installed is run from npm, or skipped if npm cannot provide it.
const RUNTIMES: { name: string; npmPackage: string; command: string[]; installed: boolean }[] = [
  {
    name: "Node 24",
    npmPackage: process.platform === "linux" ? `node-linux-${process.arch}@24` : "node@24",
    command: ["node"],
    installed: process.version.startsWith("v24."),
  },
  {
    name: "Deno",
    npmPackage: "deno@2",
    command: ["deno", "run", "--allow-net", "--no-prompt", "--no-config"],
    installed: true,
  },
  { name: "Bun", npmPackage: "bun@^1.2", command: ["bun", "run"], installed: true },
];

const run = promisify(execFile);
const fromNpm = (npmPackage: string, command: string[]) => {
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

const CHROMIUM = ["chromium", "chromium-browser", "google-chrome"];

let page: string;
let report: (text: string) => void = () => {};
const pages = createServer(async (request, response) => {
  if (request.method === "POST") report(await readBody(request));
  response.writeHead(200, { "content-type": "text/html" }).end(page);
});
let origin: string;
beforeAll(async () => {
  await once(pages.listen(0, "127.0.0.1"), "listening");
  origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
});
afterAll(() => {
  pages.closeAllConnections();
  pages.close();
});

// Browsers may call only from the page's origin; other runtimes send no origin.
const context = useGateway(() => ({ CORS_ORIGINS: origin }));
const directory = await makeTempFolder("runtimes");

/** Bundles smoke.ts into one script. `report` is the code that outputs its JSON, `text`. */
async function bundleSmoke(checkInDate: string, report: string): Promise<string> {
  const options = { apiKey: context.readWrite, baseUrl: context.proxy.url, checkInDate };
  const { outputFiles } = await build({
    stdin: {
      contents: `import { smoke } from "./smoke.ts";
        smoke(${JSON.stringify(options)})
          .then(JSON.stringify, (error) => String(error.stack))
          .then((text) => ${report});`,
      resolveDir: fileURLToPath(new URL(".", import.meta.url)),
    },
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
  context.proxy.injectNext(
    errorEnvelope(503, "INTERNAL_ERROR"),
    truncatedBody,
    passThrough,
    resetAfterProcessing,
  );
  const text = await start();
  expect(text).toMatch(/^\{/);
  const checks = Object.entries(JSON.parse(text) as Record<string, boolean>);
  expect(checks.filter(([, passed]) => !passed)).toEqual([]);
  expect(checks.length).toBeGreaterThan(10);
  expect((await context.forms()).length - before).toBe(2);
}

/** Code that prints the version of the runtime, then the text. */
const PRINT =
  "console.log((globalThis.Deno?.version.deno ?? process.versions.bun ?? process.version) + '\\n' + text)";

async function writeSmokeFile(checkInDate: string): Promise<string> {
  const file = join(directory, "smoke.mjs");
  await writeFile(file, await bundleSmoke(checkInDate, PRINT));
  return file;
}

const withoutFirstLine = (text: string) => text.slice(text.indexOf("\n") + 1);

test(`the SDK works in Node ${process.version}`, { timeout: 180_000 }, async () => {
  const file = await writeSmokeFile("2050-01-01T14:00:00Z");
  await expectSmokePasses(async () => withoutFirstLine((await run(process.execPath, [file])).stdout));
});

test.for(RUNTIMES.map((runtime) => [runtime.name, runtime] as const))(
  "the SDK works in %s",
  { timeout: 300_000 },
  async ([name, runtime], { skip }) => {
    const { npmPackage, command } = runtime;
    const [program = "", ...args] = command;
    const starts = [
      ...(runtime.installed ? [(...more: string[]) => run(program, more, { timeout: 120_000 })] : []),
      (...more: string[]) => fromNpm(npmPackage, [program, ...more]),
    ];
    const file = await writeSmokeFile(`${2051 + RUNTIMES.indexOf(runtime)}-01-01T14:00:00Z`);
    await expectSmokePasses(async () => {
      for (const start of starts) {
        const output = await start(...args, file).catch(async (error: unknown) => {
          if (await start("--version").catch(() => undefined)) throw error;
        });
        if (!output) continue;
        console.log(`${name}: ${output.stdout.split("\n")[0]}`);
        return withoutFirstLine(output.stdout);
      }
      skipMissing(skip, name);
      return "";
    });
  },
);

test("the SDK works in headless Chromium, from a page of another origin", { timeout: 360_000 }, async ({
  skip,
}) => {
  let browser = "";
  for (const name of CHROMIUM) {
    const found = await run(name, ["--version"]).catch(() => undefined);
    if (found) browser ||= name;
    if (found) console.log(found.stdout.trim());
  }
  if (!browser) return skipMissing(skip, "Chromium");
  const script = await bundleSmoke("2060-01-01T14:00:00Z", 'fetch("/", { method: "POST", body: text })');
  page = `<!doctype html><meta charset="utf-8"><script>${script.replaceAll("</script", "<\\/script")}</script>`;
  await expectSmokePasses(async () => {
    const reported = new Promise<string>((resolve) => {
      report = resolve;
    });
    const profile = `--user-data-dir=${join(directory, "profile")}`;
    const child = spawn(browser, ["--headless", "--no-sandbox", "--disable-gpu", profile, origin], {
      stdio: "ignore",
    });
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
