import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { TOKEN } from "../internal/internal-gateway.js";
import { createTestDatabase } from "../support/database.js";
import { listEmails, makeForm } from "../support/factories.js";
import { makeFixture } from "../support/gateway-processes.js";
import { sendRequest, singleConnectionAgent } from "../support/http-client.js";
import { loadedPackages, REPORT_MODULES } from "../support/loaded-packages.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { freePort, listenLocally } from "../support/network.js";
import { type ProcessResult, runCli, spawnCli, spawnNode } from "../support/processes.js";
import { commandsWith } from "../support/run-in-process.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";

/** Generous, because the machine may be loaded. */
const TIMEOUT = { timeout: 240_000 };

/** A failure is one line on standard error and nothing on standard output. */
function expectFailure({ stdout, stderr, code }: ProcessResult, exitCode: number, message: string): void {
  expect({ stdout, code }).toEqual({ stdout: "", code: exitCode });
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
  expect(stderr).toContain(message);
}

/** Starts `serve`, and waits until it listens. */
async function serveWith(env: Record<string, string>, ...args: string[]) {
  const serve = spawnCli(["serve", ...args], { env });
  const [, url = ""] = await serve.waitForLine(/^Listening on (http:[^;]+);/, 90_000);
  return { serve, url };
}

describe("the command line", TIMEOUT, () => {
  it("exits with 0 on success, 2 on a usage error and 1 on any other error, which has one line on standard error", async () => {
    const { version } = createRequire(import.meta.url)("../../package.json");
    expect(await runCli(["--version"])).toMatchObject({ stdout: `${version}\n`, stderr: "", code: 0 });
    expectFailure(await runCli(["keyz"]), 2, "error: unknown command 'keyz'");
    expectFailure(await runCli(["migrate"]), 1, "error: DATABASE_URL is not set");
    const group = await runCli(["keys"]);
    expect(group).toMatchObject({ stdout: "", code: 2 });
    expect(group.stderr).toMatch(/^Usage: guest-forms keys/);
  });

  it("--help prints to standard output, and loads neither Prisma, pg, Express nor tRPC", async () => {
    const program = join(packageRoot(), "dist/main.js");
    const help = await spawnNode([...REPORT_MODULES, program, "keys", "rotate", "--help"]).done;
    const stdout = expect.stringMatching(
      /--grace <span> [\s\S]*default: 24h[\s\S]*Example:\n {2}guest-forms keys rotate/,
    );
    expect(help).toMatchObject({ stdout, code: 0 });
    const packages = loadedPackages(help.stderr);
    expect(packages).toContain("commander");
    expect(packages.filter((name) => /^(@prisma\/.*|pg|express|@trpc\/.*)$/.test(name))).toEqual([]);
  });

  it("migrate --json prints what was applied, and migrate --dry-run what is pending", async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const { text, json } = commandsWith({ DATABASE_URL });
    expect(await json("migrate")).toEqual({ applied: [] });
    expect(await json("migrate", "--dry-run")).toEqual({ pending: [] });
    expect(await text("migrate", "--dry-run")).toBe("The database is already up to date.\n");
  });

  it.each([
    ["serve", "127.0.0.1"],
    ["worker", "127.0.0.1"],
    ["serve", "database.invalid"],
  ])(
    "%s with an unreachable database prints its host and port without the password, and exits with 1: %s",
    async (command, host) => {
      const address = `${host}:${await freePort()}`;
      const DATABASE_URL = `postgres://someone:s3cr%2Ft@${address}/forms`;
      const { stdout, stderr, code } = await runCli([command], { env: { DATABASE_URL } });
      expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
      expect(stderr).not.toMatch(/s3cr|node:internal|\n +at /);
      expect(stderr.split("\n").at(-2)).toMatch(`error: The database at ${address} cannot be reached`);
    },
  );

  it("serve on a database without tables names the missing migration in its log, and then fails", async () => {
    const { url: DATABASE_URL } = await createTestDatabase({ empty: true });
    const { stderr, code } = await runCli(["serve"], { env: { DATABASE_URL } });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^\{.*Migrations are pending.*\}\nerror: The database is not up to date.*\n$/);
  });

  it.each<[string, (port: string) => Record<string, string>, (port: string) => string]>([
    [
      "a port in use",
      (PORT) => ({ PORT }),
      (port) => `Port ${port} on 127.0.0.1 is in use: .* set PORT to another port`,
    ],
    [
      "an internal port in use",
      (INTERNAL_PORT) => ({ INTERNAL_TOKEN: TOKEN, INTERNAL_PORT }),
      (port) => `Port ${port} on 127.0.0.1 is in use: .* set INTERNAL_PORT to another port`,
    ],
    [
      "an unknown host",
      () => ({ HOST: "host.invalid" }),
      () => "Cannot listen on host.invalid port 0 .* check HOST and PORT",
    ],
    [
      "an unknown internal host",
      (INTERNAL_PORT) => ({ INTERNAL_TOKEN: TOKEN, INTERNAL_PORT, INTERNAL_HOST: "host.invalid" }),
      (port) => `Cannot listen on host.invalid port ${port} .* check INTERNAL_HOST and INTERNAL_PORT`,
    ],
  ])("%s is reported in one line with its settings", async (_, settings, message) => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const listener = createServer();
    const port = String(await listenLocally(listener));
    const env = { DATABASE_URL, LOG_LEVEL: "error", PORT: "0", ...settings(port) };
    const { code, stdout, stderr } = await runCli(["serve"], { env });
    listener.close();
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(new RegExp(`^error: ${message(port)}[^\\n]*\\n$`));
  });

  it("the same port for both is reported as such", async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const port = String(await freePort());
    const env = { DATABASE_URL, LOG_LEVEL: "error", INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: port, PORT: port };
    const failed = await runCli(["serve"], { env });
    expectFailure(failed, 1, `PORT and INTERNAL_PORT are both ${port}`);
  });
});

describe("serve and worker", TIMEOUT, () => {
  it("serve asks clients to reconnect during DRAIN_DELAY_SECONDS, and a second SIGINT ends it", async () => {
    const { env, key } = await makeFixture();
    const { serve, url } = await serveWith({ ...env, DRAIN_DELAY_SECONDS: "60" });
    const list = () => sendRequest(`${url}/v1/forms`, key.key, { agent: singleConnectionAgent() });
    expect((await list()).headers.connection).toBe("keep-alive");
    const stopped = serve.stop("SIGINT");
    await expect.poll(async () => (await fetch(`${url}/readyz`)).status).toBe(503);
    const { status, headers } = await list();
    expect([status, headers.connection]).toEqual([200, "close"]);
    // A signal within 0.5 s counts as a duplicate.
    await sleep(700);
    await serve.stop("SIGINT");
    expect((await stopped).code).toBe(130);
  });

  it("without SMTP_URL a service is ready, /readyz reports that emails wait, and each command warns once", async () => {
    const { env, services, listing, key } = await makeFixture(undefined, { NODE_ENV: "production" });
    const { serve, url } = await serveWith(env);
    const waits = { status: "ok", emails: "waiting: SMTP_URL is not set" };
    const ready = await fetch(`${url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([200, waits]);
    const worker = spawnCli(["worker", "--json"], { env });
    await worker.waitForLine(/^\{"concurrency":0\}$/, 90_000);
    const body = uniqueStay(listing.id, { guestEmail: "guest@example.com" });
    const { json } = await sendRequest(`${url}/v1/forms`, key.key, { method: "POST", body });
    const form = json as { id: string; publicId: string };
    for (const { stderr } of [await serve.stop(), await worker.stop()]) {
      expect(stderr.split('"msg":"emails wait: SMTP_URL is not set"')).toHaveLength(2);
      expect(stderr).not.toContain(form.publicId);
    }
    const [waiting] = await listEmails(services);
    expect(waiting).toMatchObject({ formId: form.id, state: "waiting", attempts: 0 });
  });

  it("a worker announces its secrets until it has drained", async () => {
    const mailServer = await openMailServer();
    mailServer.holdRcpt();
    const { env, services, listing, userId } = await makeFixture(undefined, mailEnv(mailServer.url));
    const countAnnounced = async () => (await services.db.pool.query("SELECT FROM secret_uses")).rowCount;
    const worker = spawnCli(["worker"], { env });
    await makeForm(services, userId, listing.id, { guestEmail: "guest@example.com" });
    await expect.poll(() => mailServer.rcptCount).toBe(1);
    const stopped = worker.stop();
    await sleep(1_000);
    expect(await countAnnounced()).toBe(1);
    mailServer.releaseRcpt();
    expect((await stopped).code).toBe(0);
    expect(await countAnnounced()).toBe(0);
  });

  it("serve warns once about a misspelled setting, and once about more connections than Postgres allows", async () => {
    const { env } = await makeFixture();
    const { serve } = await serveWith({ ...env, RATE_LIMIT_MX: "5", DATABASE_POOL_SIZE: "900" }, "--no-worker");
    const { code, stderr } = await serve.stop();
    expect(code).toBe(0);
    const lines = stderr.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 40)).toEqual([
      expect.objectContaining({ check: "connections", msg: expect.stringMatching(/at most 902 connections/) }),
      expect.objectContaining({ check: "settings", msg: expect.stringMatching(/RATE_LIMIT_MX .*RATE_LIMIT_MAX/) }),
    ]);
  });

  it("serve starts while migrations are pending, warns first, and is ready once they are finished; a closed terminal (SIGHUP) shuts down serve and worker gracefully", async () => {
    const { env } = await makeFixture();
    const { DATABASE_URL = "" } = env;
    await runSql(DATABASE_URL, "UPDATE _prisma_migrations SET finished_at = NULL");
    const { serve, url } = await serveWith(env, "--no-worker");
    // Before any other message about the database.
    expect(serve.stderr.split("\n")[0]).toMatch(/Migrations are pending: .* Run `guest-forms migrate`/);
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
    await runSql(DATABASE_URL, "UPDATE _prisma_migrations SET finished_at = now()");
    await expect.poll(async () => (await fetch(`${url}/readyz`)).status).toBe(200);
    const worker = spawnCli(["worker"], { env });
    await worker.waitForLine(/^Sending emails, 0 at a time, and webhooks\.$/);
    for (const running of [serve, worker])
      expect(await running.stop("SIGHUP")).toMatchObject({ code: 0, signal: null });
  });
});
