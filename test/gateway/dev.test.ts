import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase, RunningProcess, runCli, spawnCli } from "../harness.js";
import { isAlive } from "../is-alive.js";

const run = promisify(execFile);
const STARTED = 45_000;
const curlIsThere = spawnSync("curl", ["--version"]).status === 0;

interface Ready {
  url: string;
  docs: string;
  readWriteKey: string;
  readOnlyKey: string;
  listings: { id: string; title: string }[];
}

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "guest-forms-dev-"));
  // As root, Postgres runs as another user: it would put its data elsewhere, and leave it there.
  await chmod(folder, 0o755);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const env = { PORT: "0" };

async function ready(dev: RunningProcess): Promise<Ready> {
  const [line] = await dev.waitForLine(/^\{"url":.*/, STARTED);
  return JSON.parse(line);
}

const get = async (url: string, key: string) => {
  const answer = await fetch(url, { headers: { Authorization: `Bearer ${key}` } });
  return { status: answer.status, body: (await answer.json()) as { items: Record<string, unknown>[] } };
};

const modeOf = async (name: string) => (await stat(join(folder, ".data", name))).mode & 0o777;

describe("dev on its own Postgres", () => {
  let kept: { demo: string; formIds: unknown[] };

  it("the first start shows its steps and lines that work when pasted, and stops cleanly", {
    timeout: 180_000,
  }, async () => {
    // Both streams in one, as in a terminal.
    const within = ["sh", "-c", 'exec "$@" 2>&1', "sh"];
    const dev = spawnCli(["dev"], { env, cwd: folder, commandPrefix: within });
    await dev.waitForLine(/^Stop it with Ctrl-C/, STARTED);
    expect(dev.stdout).toMatch(/"msg":"listening"[\s\S]*Guest forms is running/);
    expect(dev.stdout.split("APP_SECRETS is not set")).toHaveLength(2);
    for (const step of [
      "Starting Postgres",
      "Migrating the database",
      "Preparing the demo",
      "Starting the gateway",
    ]) {
      expect(dev.stdout).toContain(step);
    }
    const said = (label: string) => new RegExp(`^ +${label} +(\\S+)`, "m").exec(dev.stdout)?.[1] ?? "";
    const [address, writeKey, readKey] = [said("URL"), said("Read-write key"), said("Read-only key")];
    expect(said("API reference")).toBe(`${address}/docs`);
    const [create, list, listing] = [...dev.stdout.matchAll(/^ {2}curl [\s\S]*?(?=\n\n)/gm)].map(
      ([line]) => line,
    );
    if (curlIsThere) {
      const paste = async (line = "") => {
        const { stdout } = await run("sh", ["-c", line]);
        // The shell's prompt must not stick to the answer.
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
    }

    const listings = await get(`${address}/v1/listings`, readKey);
    expect(listings.body.items.map(({ active }) => active)).toEqual([true, true, false]);
    const forms = await get(`${address}/v1/forms?limit=100`, writeKey);
    const statuses = new Set(forms.body.items.map(({ status }) => status));
    expect(statuses.size).toBeGreaterThan(3);
    expect(statuses).toContain("UNKNOWN");

    expect([await modeOf("demo.json"), await modeOf("database-url")]).toEqual([0o600, 0o600]);
    const keys = await runCli(["keys", "list", "--json"], { cwd: folder });
    expect(JSON.parse(keys.stdout)).toMatchObject([{ mode: "read-write" }, { mode: "read-only" }]);

    const second = await runCli(["dev"], { env, cwd: folder });
    expect(second).toMatchObject({ stdout: "", code: 1 });
    expect(second.stderr).toMatch(/error: The database in .* is in use by another process[^\n]*\n$/);

    const pid = await postmaster();
    expect(isRunning(pid)).toBe(true);
    expect((await dev.stop("SIGINT")).code).toBe(0);
    expect(isRunning(pid)).toBe(false);
    await expect(stat(join(folder, ".data", "database-url"))).rejects.toThrow("ENOENT");
    kept = { demo: await demoFile(), formIds: forms.body.items.map(({ id }) => id) };
  });

  it("the second start keeps the keys and the data", { timeout: 180_000 }, async () => {
    const dev = spawnCli(["dev", "--json"], { env, cwd: folder });
    const { url, readWriteKey, readOnlyKey } = await ready(dev);
    expect(await demoFile()).toBe(kept.demo);
    expect(JSON.parse(kept.demo)).toEqual({ readWriteKey, readOnlyKey });
    const forms = await get(`${url}/v1/forms?limit=100`, readOnlyKey);
    expect(forms.body.items.map(({ id }) => id)).toEqual(kept.formIds);
    const { code, stdout } = await dev.stop("SIGTERM");
    expect(code).toBe(0);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  });

  it("a killed dev's database is found by the next start, which a closed terminal stops cleanly", {
    timeout: 180_000,
  }, async () => {
    const killed = spawnCli(["dev", "--json"], { env, cwd: folder });
    await ready(killed);
    await killed.stop("SIGKILL");
    const dev = spawnCli(["dev", "--json"], { env, cwd: folder });
    const { url, readOnlyKey } = await ready(dev);
    const forms = await get(`${url}/v1/forms?limit=100`, readOnlyKey);
    expect(forms.body.items.map(({ id }) => id)).toEqual(kept.formIds);
    expect((await dev.stop("SIGHUP")).code).toBe(0);
    await expect(stat(join(folder, ".data", "database-url"))).rejects.toThrow("ENOENT");
  });

  it("a database of another version is refused with the command to start afresh, which works", {
    timeout: 180_000,
  }, async () => {
    const first = spawnCli(["dev", "--json"], { env, cwd: folder });
    await ready(first);
    const fresh = (DATABASE_URL?: string) =>
      spawnCli(["dev", "--json", "--fresh"], { env: { ...env, DATABASE_URL }, cwd: folder });
    const inUse = await fresh().done;
    expect(inUse.code).toBe(1);
    expect(JSON.parse(inUse.stdout)).toMatchObject({ error: { code: "COMMAND_FAILED" } });
    expect(inUse.stderr).toMatch(/^error: The database in .* is in use by another process[^\n]*\n$/);
    const DATABASE_URL = (await readFile(join(folder, ".data", "database-url"), "utf8")).trim();
    const client = new pg.Client({ connectionString: DATABASE_URL });
    await client.connect();
    await client.query("UPDATE _prisma_migrations SET migration_name = '20200101000000_old'");
    await client.end();
    const refusal =
      /error: [^\n]* another version of guest-forms has migrated it [^\n]*_old[^\n]*`guest-forms dev --fresh`[^\n]*\n$/;
    const migrated = await runCli(["migrate"], { env: { DATABASE_URL } });
    expect(migrated).toMatchObject({ stdout: "", code: 1 });
    expect(migrated.stderr).toMatch(refusal);
    expect((await first.stop()).code).toBe(0);
    const refused = await runCli(["dev"], { env, cwd: folder });
    expect(refused).toMatchObject({ stdout: "", code: 1 });
    expect(refused.stderr).toMatch(refusal);

    const notOurs = await fresh(DATABASE_URL).done;
    expect(notOurs).toMatchObject({ stdout: expect.stringMatching(/^\{"error":/), code: 1 });
    expect(notOurs.stderr).toMatch(/^error: --fresh [^\n]*DATABASE_URL[^\n]*\n$/);
    const dev = fresh();
    const { url, readOnlyKey } = await ready(dev);
    expect(await demoFile()).not.toBe(kept.demo);
    const forms = await get(`${url}/v1/forms?limit=100`, readOnlyKey);
    expect(forms.body.items).toHaveLength(kept.formIds.length - (curlIsThere ? 1 : 0));
    expect((await dev.stop()).code).toBe(0);
  });

  const demoFile = () => readFile(join(folder, ".data", "demo.json"), "utf8");

  async function postmaster(): Promise<number> {
    const file = join(folder, ".data", "postgres", "cluster", "postmaster.pid");
    return Number((await readFile(file, "utf8")).split("\n")[0]);
  }

  function isRunning(pid: number): boolean {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  }
});

describe.concurrent("dev on a given database", () => {
  const start = async (DATABASE_URL: string, cwd: string, more: Record<string, string> = env) =>
    spawnCli(["dev", "--json"], { env: { DATABASE_URL, ...more }, cwd });

  it("a demo key that no longer works is replaced, and nothing is made twice", {
    timeout: 180_000,
  }, async () => {
    const { url: database } = await createTestDatabase();
    const cwd = await mkdtemp(join(folder, "given-"));
    const first = await start(database, cwd);
    const before = await ready(first);
    expect((await first.stop()).code).toBe(0);
    const keys = await runCli(["keys", "list", "--json"], { env: { DATABASE_URL: database } });
    const { id } = JSON.parse(keys.stdout).find(({ mode }: { mode: string }) => mode === "read-only");
    await runCli(["keys", "revoke", id], { env: { DATABASE_URL: database } });
    const second = await start(database, cwd);
    const after = await ready(second);
    expect(after.readWriteKey).toBe(before.readWriteKey);
    expect(after.readOnlyKey).not.toBe(before.readOnlyKey);
    expect(after.listings).toEqual(before.listings);
    expect((await get(`${after.url}/v1/listings`, after.readOnlyKey)).body.items).toHaveLength(3);
    expect((await second.stop()).code).toBe(0);
    // With its file lost, the demo holder is found again.
    await rm(join(cwd, ".data"), { recursive: true });
    const third = await start(database, cwd);
    expect((await ready(third)).listings).toEqual(before.listings);
    await third.stop();
  });

  it("a taken port is replaced by the next free one, the same at each start, unless it was chosen", {
    timeout: 180_000,
  }, async () => {
    const { url: database } = await createTestDatabase();
    const cwd = await mkdtemp(join(folder, "port-"));
    const taken = await Promise.all([3000, 3001, 3003].map(occupy));
    const token = { INTERNAL_TOKEN: "t".repeat(32), INTERNAL_PORT: "3002" };
    const first = await start(database, cwd, token);
    const { url } = await ready(first);
    const port = Number(new URL(url).port);
    expect(port).toBeGreaterThan(3003);
    expect(port).toBeLessThanOrEqual(3100);
    expect(first.stderr).toContain("Port 3000 is in use: trying 3001.\nPort 3001 is in use: trying 3003.\n");
    const chosen = await runCli(["dev", "--port", `${port}`], { env: { DATABASE_URL: database }, cwd });
    expect(chosen).toMatchObject({ stdout: "", code: 1 });
    expect(chosen.stderr).toMatch(new RegExp(`\\nerror: Port ${port} on 127.0.0.1 is in use[^\\n]*\\n$`));
    expect((await first.stop()).code).toBe(0);
    for (const server of taken) server.close();
  });
});

/** Has a port taken, by this test or by someone else. */
async function occupy(port: number) {
  const server = createServer().listen(port, "127.0.0.1");
  await Promise.race([once(server, "listening"), once(server, "error").catch(() => {})]).catch(() => {});
  return server;
}

describe("npm start", () => {
  const scriptIsThere = spawnSync("script", ["--version"]).status === 0;
  let home: string;
  beforeAll(async () => {
    home = await mkdtemp(join(folder, "npm-"));
    await chmod(home, 0o755);
    // The checkout's own command, without its build.
    const { scripts } = JSON.parse(await readFile(join(packageRoot(), "package.json"), "utf8"));
    await writeFile(
      join(home, "package.json"),
      JSON.stringify({ scripts: { start: scripts.start, build: "node --version" } }),
    );
    await symlink(join(packageRoot(), "dist"), join(home, "dist"));
  });

  const postmaster = async () =>
    Number((await readFile(join(home, ".data/postgres/cluster/postmaster.pid"), "utf8")).split("\n")[0]);
  const isLeft = (name: string) =>
    stat(join(home, ".data", name)).then(
      () => true,
      () => false,
    );

  async function run(command: string, args: string[]): Promise<RunningProcess> {
    const { PATH, HOME, TMPDIR } = process.env;
    const child = spawn(command, args, {
      cwd: home,
      env: { PATH, HOME, TMPDIR, PORT: "0", SHELL: "/bin/sh" },
      stdio: ["ignore", "pipe", "pipe"],
      // Without a terminal that would signal the others when npm ends.
      detached: true,
    });
    onTestFinished(() => {
      // Its whole group, if anything is left.
      if (child.pid) spawnSync("kill", ["-KILL", "--", `-${child.pid}`]);
    });
    const running = new RunningProcess(child);
    await running.waitForLine(/^Stop it with Ctrl-C/);
    return running;
  }

  it.each(["SIGTERM", ...(process.platform === "linux" ? (["SIGHUP", "SIGKILL"] as const) : [])] as const)(
    "%s to npm alone stops the service and its database in good order",
    { timeout: 180_000 },
    async (signal) => {
      const npm = await run("npm", ["start"]);
      const pid = await postmaster();
      expect(isAlive(pid)).toBe(true);
      await npm.stop(signal);
      await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 20_000);
      // What a service that was killed leaves behind.
      await vi.waitFor(async () => expect(await isLeft("database-url")).toBe(false), 20_000);
    },
  );

  it.skipIf(!scriptIsThere)(
    "closing its terminal stops the service and its database in good order",
    {
      timeout: 180_000,
    },
    async () => {
      const terminal = await run("script", ["--quiet", "--command", "npm start", "/dev/null"]);
      const pid = await postmaster();
      await terminal.stop("SIGKILL");
      await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 20_000);
      await vi.waitFor(async () => expect(await isLeft("database-url")).toBe(false), 20_000);
    },
  );
});
