import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readBody } from "./fake-service.js";
import { useGateway } from "./gateway.js";
import { envelope, halfBody, pass, resetAfter } from "./mischief.js";

// Those not installed come from npm; one that cannot be had here is skipped.
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
  // Bun's package puts its program in place by an install script.
  const options = ["--yes", "--prefer-offline", "--allow-scripts=bun", `--package=${npmPackage}`];
  return run("npm", ["exec", ...options, "--", ...command], {
    cwd: tmpdir(),
    env: { ...process.env, npm_config_ignore_scripts: "false" },
    timeout: 360_000,
  });
};

/** Where nothing may be skipped, what is missing is a failure. */
function missing(skip: (why: string) => void, what: string): void {
  if (process.env.CI) throw new Error(`${what} is missing`);
  skip(`${what} is not to be had here`);
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

// Only the page's origin may call; the other runtimes know of no origin.
const world = useGateway(() => ({ CORS_ORIGINS: origin }));
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "guest-forms-runtimes-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** The smoke program as one script that needs nothing; `report` is what to do with its JSON. */
async function bundle(checkInDate: string, report: string): Promise<string> {
  const options = { apiKey: world.readWrite, baseUrl: world.mischief.url, checkInDate };
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

/** Runs it where the first list fails twice, and the first create is done and its answer lost. */
async function expectAllWell(start: () => Promise<string>) {
  const before = (await world.forms()).length;
  world.mischief.plan(envelope(503, "INTERNAL_ERROR"), halfBody, pass, resetAfter);
  const text = await start();
  expect(text).toMatch(/^\{/);
  const facts = Object.entries(JSON.parse(text) as Record<string, boolean>);
  expect(facts.filter(([, holds]) => !holds)).toEqual([]);
  expect(facts.length).toBeGreaterThan(10);
  expect((await world.forms()).length - before).toBe(2);
}

async function expectAllWellInFile(
  checkInDate: string,
  start: (file: string) => Promise<{ stdout: string }>,
) {
  const file = join(directory, "smoke.mjs");
  await writeFile(file, await bundle(checkInDate, "console.log(text)"));
  await expectAllWell(async () => (await start(file)).stdout);
}

test(`Node ${process.version}`, { timeout: 180_000 }, () =>
  expectAllWellInFile("2050-01-01T14:00:00Z", (file) => run(process.execPath, [file])),
);

test.for(RUNTIMES.map((runtime) => [runtime.name, runtime] as const))(
  "%s",
  { timeout: 300_000 },
  async ([name, runtime], { skip }) => {
    const { npmPackage, command } = runtime;
    const [program = "", ...args] = command;
    const starts = [
      ...(runtime.installed ? [(...more: string[]) => run(program, more, { timeout: 120_000 })] : []),
      (...more: string[]) => fromNpm(npmPackage, [program, ...more]),
    ];
    for (const start of starts) {
      const found = await start("--version").catch(() => undefined);
      if (!found) continue;
      console.log(`${name}: ${found.stdout.trim().split("\n")[0]}`);
      const year = 2051 + RUNTIMES.indexOf(runtime);
      return expectAllWellInFile(`${year}-01-01T14:00:00Z`, (file) => start(...args, file));
    }
    missing(skip, name);
  },
);

test("headless Chromium, from a page of another origin", { timeout: 360_000 }, async ({ skip }) => {
  let browser = "";
  for (const name of CHROMIUM) {
    const found = await run(name, ["--version"]).catch(() => undefined);
    if (found) browser ||= name;
    if (found) console.log(found.stdout.trim());
  }
  if (!browser) return missing(skip, "Chromium");
  const script = await bundle("2060-01-01T14:00:00Z", 'fetch("/", { method: "POST", body: text })');
  page = `<!doctype html><meta charset="utf-8"><script>${script.replaceAll("</script", "<\\/script")}</script>`;
  await expectAllWell(async () => {
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
  const [request] = world.mischief.requests.filter(({ method }) => method === "POST");
  expect(request?.headers["x-guest-forms-client"]).toMatch(/^guest-forms-sdk\//);
  expect(request?.headers["user-agent"]).toMatch(/^Mozilla\//);
});
