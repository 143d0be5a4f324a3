import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { migrationNames } from "../../prisma/migration-files.js";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { asOperator, openTestServices } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { isAlive, RunningProcess, runCli, spawnCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";

const run = promisify(execFile);
const TIMEOUT = { timeout: 180_000 };
const SHUTDOWN = { timeout: 20_000 };
const isCurlInstalled = spawnSync("curl", ["--version"]).status === 0;

interface Ready {
  url: string;
  docs: string;
  console: { url: string; token?: string };
  readWriteKey: string;
  readOnlyKey: string;
  listings: unknown[];
}

const folder = await makeTempFolder("dev");
// As root, Postgres runs as another user. If that user cannot read the folder, the data goes elsewhere and stays there.
await chmod(folder, 0o755);

const env = { PORT: "0", INTERNAL_PORT: "0" };
/** `dev` makes a secret of its own. */
const ownEnv = { ...env, APP_SECRETS: "" };

async function waitUntilReady(dev: RunningProcess): Promise<Ready> {
  const [line] = await dev.waitForLine(/^\{"url":.*/);
  return JSON.parse(line);
}

const get = async (url: string, key: string) => {
  const { status, json } = await sendRequest(url, key);
  return { status, body: json as { items: Record<string, unknown>[] } };
};

/** Signs in to the console, and returns the status. */
async function signIn(url: string, token: string): Promise<number> {
  const headers = { "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin" };
  const body = JSON.stringify({ token, name: "Ada" });
  return (await fetch(`${url}/session`, { method: "POST", headers, body })).status;
}

const modeOf = async (name: string) => (await stat(join(folder, ".data", name))).mode & 0o777;

async function readPostmasterPid(cwd: string): Promise<number> {
  const file = join(cwd, ".data", "postgres", "cluster", "postmaster.pid");
  return Number((await readFile(file, "utf8")).split("\n")[0]);
}

describe("dev with its own Postgres", TIMEOUT, () => {
  let firstRun: { demo: string; formIds: unknown[] };
  /** Runs from the second test to the third. */
  let dev: RunningProcess;

  it("the first start shows its steps and builds no index, shows curl commands that work when pasted and the webhooks of what they do, and stops cleanly", async () => {
    // Both streams combined, as in a terminal.
    const within = ["sh", "-c", 'exec "$@" 2>&1', "sh"];
    const dev = spawnCli(["dev"], { env: ownEnv, cwd: folder, commandPrefix: within });
    await dev.waitForLine(/^Stop it with Ctrl-C/);
    expect(dev.stdout).toMatch(/"msg":"listening"[\s\S]*Guest forms is running/);
    for (const step of ["Starting Postgres", "Migrating the database", "Preparing the demo", "Starting the gateway"]) {
      expect(dev.stdout).toContain(step);
    }
    // An empty database has no indexes to build while others use it.
    const applied = (await migrationNames()).map((name) => `Applied migration ${name}.\n`).join("");
    expect(dev.stdout).toContain(`\nMigrating the database …\n${applied}Preparing the demo data …\n`);
    const printed = (label: string) => new RegExp(`^ +${label} +(\\S+)`, "m").exec(dev.stdout)?.[1] ?? "";
    const [address, writeKey, readKey] = [printed("URL"), printed("Read-write key"), printed("Read-only key")];
    expect(printed("API reference")).toBe(`${address}/docs`);
    expect(await signIn(printed("Console"), printed("Console token"))).toBe(204);
    const [create, list, listing] = [...dev.stdout.matchAll(/^ {2}curl [\s\S]*?(?=\n\n)/gm)].map(([line]) => line);
    if (isCurlInstalled) {
      const paste = async (line = "") => {
        const { stdout } = await run("sh", ["-c", line]);
        // The line break keeps the shell's prompt off the response.
        expect(stdout).toMatch(/\}\n$/);
        return JSON.parse(stdout);
      };
      const form = await paste(create);
      expect(form).toMatchObject({ status: "SENT", numberOfGuests: 2 });
      expect(Date.parse(form.checkInDate)).toBeGreaterThan(Date.now());
      expect(await paste(create)).toEqual(form);
      expect((await paste(list)).items.at(-1)).toEqual(form);
      expect((await paste(listing)).active).toBe(true);
      await dev.waitForLine(new RegExp(`your-app\\.example\\.com/register/${form.publicId}`));
      expect(dev.stdout).toMatch(/^ +To: g\*\*\*@e\*\*\*\.com$/m);
      const logged = dev.stdout.split("\n").filter((line) => line.startsWith("{"));
      expect(logged.filter((line) => line.includes(form.publicId))).toEqual([]);
      // The first line is about this form: the demo forms are older than the endpoint.
      const webhook = `Webhook: form.created, form ${form.id}, status SENT`;
      await dev.waitForLine(/^Webhook: .*/);
      await runCli(["forms", "set-status", form.id, "COMPLETED"], { env: ownEnv, cwd: folder });
      await dev.waitForLine(/^Webhook: form\.status_changed, form .*, from SENT, to COMPLETED$/);
      expect(dev.stdout.match(/^Webhook: .*$/m)?.[0]).toBe(webhook);
    }

    const listings = await get(`${address}/v1/listings`, readKey);
    expect(listings.body.items.map(({ active }) => active)).toEqual([true, true, false]);
    const forms = await get(`${address}/v1/forms?limit=100`, writeKey);
    expect(forms.body.items.map(({ status }) => status)).toContain("UNKNOWN");
    for (const name of ["demo.json", "database-url", "app-secret", "internal-token"])
      expect(await modeOf(name)).toBe(0o600);
    const keys = await runCli(["keys", "list", "--user", "demo.host@example.com", "--json"], {
      env: ownEnv,
      cwd: folder,
    });
    expect(JSON.parse(keys.stdout)).toMatchObject({ items: [{ mode: "read-write" }, { mode: "read-only" }] });
    const pid = await readPostmasterPid(folder);
    expect(isAlive(pid)).toBe(true);
    expect((await dev.stop("SIGINT")).code).toBe(0);
    expect(isAlive(pid)).toBe(false);
    await expect(stat(join(folder, ".data", "database-url"))).rejects.toThrow("ENOENT");
    firstRun = { demo: await demoFile(), formIds: forms.body.items.map(({ id }) => id) };
  });

  it("the second start keeps the keys and the data, and so does the start after SIGKILL, which still prints webhooks", async () => {
    const second = spawnCli(["dev", "--json"], { env: ownEnv, cwd: folder });
    const ready = await waitUntilReady(second);
    await expectDemo(ready);
    const token = (await readFile(join(folder, ".data", "internal-token"), "utf8")).trim();
    expect(ready.console).toEqual({ url: expect.stringMatching(/^http:.*\/console$/), token });
    await second.stop("SIGKILL");
    dev = spawnCli(["dev", "--json"], { env: ownEnv, cwd: folder });
    await expectDemo(await waitUntilReady(dev));
    const { stdout } = await runCli(["webhooks", "list", "--json"], { env: ownEnv, cwd: folder });
    const own = JSON.parse(stdout).items.filter(({ userId }: { userId: string | null }) => userId === null);
    expect(own).toMatchObject([{ url: expect.stringMatching(/\/guest-forms-demo$/), enabled: true }]);
    const tested = await runCli(["webhooks", "test", own[0].id], { env: ownEnv, cwd: folder });
    expect(tested.stdout).toMatch(/^Delivered: status 204 /);
    expect(dev.stderr).toMatch(/^Webhook: webhook\.test$/m);
  });

  it("dev rejects a database in use or migrated by another version, a closed terminal (SIGHUP) stops it cleanly, and dev --fresh replaces it", async () => {
    const fresh = () => spawnCli(["dev", "--json", "--fresh"], { env: ownEnv, cwd: folder });
    const inUse = await fresh().done;
    expect(JSON.parse(inUse.stdout)).toMatchObject({ error: { code: "COMMAND_FAILED" } });
    expect(inUse.stderr).toMatch(/^error: The database in .* is in use by another process[^\n]*\n$/);
    const DATABASE_URL = (await readFile(join(folder, ".data", "database-url"), "utf8")).trim();
    await runSql(DATABASE_URL, "UPDATE _prisma_migrations SET migration_name = '20200101000000_old'");
    expect((await dev.stop("SIGHUP")).code).toBe(0);
    await expect(stat(join(folder, ".data", "database-url"))).rejects.toThrow("ENOENT");
    const refused = await runCli(["dev"], { env: ownEnv, cwd: folder });
    expect(refused).toMatchObject({ stdout: "", code: 1 });
    expect(refused.stderr).toMatch(
      /error: [^\n]* another version of guest-forms has migrated it [^\n]*_old[^\n]*`guest-forms dev --fresh`[^\n]*\n$/,
    );
    const replaced = fresh();
    await waitUntilReady(replaced);
    expect(await demoFile()).not.toBe(firstRun.demo);
    const { code, stdout } = await replaced.stop("SIGTERM");
    expect([code, stdout.trimEnd().split("\n").length]).toEqual([0, 1]);
  });

  /** Expects the keys and forms of the first start. */
  async function expectDemo({ url, readWriteKey, readOnlyKey }: Ready): Promise<void> {
    expect(await demoFile()).toBe(firstRun.demo);
    expect(JSON.parse(firstRun.demo)).toEqual({ readWriteKey, readOnlyKey });
    const forms = await get(`${url}/v1/forms?limit=100`, readOnlyKey);
    expect(forms.body.items.map(({ id }) => id)).toEqual(firstRun.formIds);
  }

  const demoFile = () => readFile(join(folder, ".data", "demo.json"), "utf8");
});

it(
  "dev with DATABASE_URL replaces a revoked demo key, creates no demo data twice, starts without an endpoint if the operator has too many, uses the next free port if the default is in use, and fails if a port set with --port is in use",
  TIMEOUT,
  async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const cwd = join(folder, "given");
    await mkdir(cwd);
    const start = (more: Record<string, string> = {}) =>
      spawnCli(["dev", "--json"], { env: { DATABASE_URL, ...more }, cwd });
    const first = start({ ...env, WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "false" });
    const before = await waitUntilReady(first);
    expect((await first.stop()).code).toBe(0);
    const { keys, users, webhooks } = asOperator(await openTestServices({ DATABASE_URL }));
    expect((await webhooks.list({})).items.filter(({ userId }) => userId === null)).toEqual([]);
    for (let n = 0; n < 20; n++) await webhooks.create({ url: "https://example.com" });
    const { id: userId } = await users.find({ user: "demo.host@example.com" });
    const readOnly = (await keys.list({ userId })).items.find(({ mode }) => mode === "READ_ONLY");
    await keys.revoke({ id: String(readOnly?.id) });
    const taken = await Promise.all([3000, 3001, 3003].map(occupy));
    const second = start({ INTERNAL_TOKEN: "t".repeat(32), INTERNAL_PORT: "3002" });
    const after = await waitUntilReady(second);
    expect(after).toMatchObject({ readWriteKey: before.readWriteKey, listings: before.listings });
    expect(after.readOnlyKey).not.toBe(before.readOnlyKey);
    expect((await get(`${after.url}/v1/listings`, after.readOnlyKey)).body.items).toHaveLength(3);
    const document = await sendRequest(`${after.url}/openapi.json`, undefined);
    expect(document.json).toMatchObject({ servers: [{ url: after.url }] });
    const port = Number(new URL(after.url).port);
    expect(port).toBeGreaterThan(3003);
    expect(second.stderr).toContain("Port 3000 is in use: trying 3001.\nPort 3001 is in use: trying 3003.\n");
    expect(second.stderr).toContain("Webhooks are not printed: an owner has at most 20 endpoints: delete one\n");
    const chosen = await runCli(["dev", "--port", `${port}`], { env: { DATABASE_URL }, cwd });
    expect(chosen).toMatchObject({ stdout: "", code: 1 });
    expect(chosen.stderr).toMatch(new RegExp(`\\nerror: Port ${port} on 127.0.0.1 is in use[^\\n]*\\n$`));
    const token = "t".repeat(32);
    expect(after.console).toEqual({ url: "http://127.0.0.1:3002/console" });
    expect(await signIn(after.console.url, token)).toBe(204);
    expect(second.stdout + second.stderr).not.toContain(token);
    const third = start();
    const { url, console: others } = await waitUntilReady(third);
    expect(third.stderr).toMatch(/Port 3001 is in use: trying \d+\.\n/);
    expect(new Set([url, after.url, others.url].map((each) => new URL(each).port)).size).toBe(3);
    expect(await signIn(others.url, others.token ?? "")).toBe(204);
    expect((await third.stop()).code).toBe(0);
    expect((await second.stop()).code).toBe(0);
    for (const server of taken) server.close();
  },
);

/** Listens on the port, unless another process already does. */
async function occupy(port: number) {
  const server = createServer().listen(port, "127.0.0.1");
  await Promise.race([once(server, "listening"), once(server, "error").catch(() => {})]).catch(() => {});
  return server;
}

describe("npm start", TIMEOUT, () => {
  const canCloseTerminal = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;
  const home = join(folder, "npm");
  beforeAll(async () => {
    await mkdir(home);
    // The start command of the repository, without its build.
    const { scripts } = JSON.parse(await readFile(join(packageRoot(), "package.json"), "utf8"));
    const manifest = { scripts: { start: scripts.start, build: "node --version" } };
    await writeFile(join(home, "package.json"), JSON.stringify(manifest));
    await symlink(join(packageRoot(), "dist"), join(home, "dist"));
  });

  /** The service starts Postgres, so it is its parent. */
  const readParentPid = async (pid: number) =>
    Number(/\) \S (\d+)/.exec(await readFile(`/proc/${pid}/stat`, "utf8"))?.[1]);

  async function expectGracefulShutdown(postmasterPid: number): Promise<void> {
    await expect.poll(() => isAlive(postmasterPid), SHUTDOWN).toBe(false);
    // A killed service would leave this file behind.
    await expect.poll(() => existsSync(join(home, ".data", "database-url")), SHUTDOWN).toBe(false);
  }

  async function run(command: string, args: string[]): Promise<RunningProcess> {
    const { PATH, HOME, TMPDIR } = process.env;
    const child = spawn(command, args, {
      cwd: home,
      env: { PATH, HOME, TMPDIR, PORT: "0", SHELL: "/bin/sh" },
      stdio: ["ignore", "pipe", "pipe"],
      // Without a terminal that would signal the other processes when npm ends.
      detached: true,
    });
    onTestFinished(() => {
      // The whole process group, if any of it is left.
      if (child.pid) spawnSync("kill", ["-KILL", "--", `-${child.pid}`]);
    });
    const running = new RunningProcess(child);
    await running.waitForLine(/^Stop it with Ctrl-C/);
    return running;
  }

  it.each(["SIGTERM", ...(process.platform === "linux" ? (["SIGKILL"] as const) : [])] as const)(
    "%s to npm alone shuts down the service and its database gracefully",
    async (signal) => {
      const npm = await run("npm", ["start"]);
      const pid = await readPostmasterPid(home);
      expect(isAlive(pid)).toBe(true);
      await npm.stop(signal);
      await expectGracefulShutdown(pid);
    },
  );

  it.skipIf(!canCloseTerminal)(
    "closing the terminal shuts down the service and its database gracefully, and the process exits",
    async () => {
      const terminal = await run("script", ["--quiet", "--command", "npm start", "/dev/null"]);
      const pid = await readPostmasterPid(home);
      const servicePid = await readParentPid(pid);
      await terminal.stop("SIGKILL");
      await expectGracefulShutdown(pid);
      await expect.poll(() => isAlive(servicePid), SHUTDOWN).toBe(false);
    },
  );
});
