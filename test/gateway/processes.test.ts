import { once } from "node:events";
import { createServer, request } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { listNotifications } from "../support/factories.js";
import { makeFixture } from "../support/gateway-processes.js";
import { sendRequest } from "../support/http-client.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { freePort } from "../support/network.js";
import { type ProcessResult, runCli, spawnCli, spawnNode } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";

/** Generous, because the machine may be loaded. */
const TIMEOUT = { timeout: 240_000 };

/** A failure is one line on standard error and nothing on standard output. */
function expectFailure({ stdout, stderr, code }: ProcessResult, exitCode: number, message: RegExp): void {
  expect(stderr).toMatch(message);
  expect({ stdout, code }).toEqual({ stdout: "", code: exitCode });
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
}

describe("the command line", TIMEOUT, () => {
  it("exits with 0 on success, 2 on a usage error and 1 on any other error, which has one line on standard error", async () => {
    const { version } = createRequire(import.meta.url)("../../package.json");
    expect(await runCli(["--version"])).toMatchObject({ stdout: `${version}\n`, stderr: "", code: 0 });
    expectFailure(await runCli(["keyz"]), 2, /^error: unknown command 'keyz'/);
    expectFailure(await runCli(["migrate"]), 1, /^error: DATABASE_URL is not set/);
    const group = await runCli(["keys"]);
    expect(group).toMatchObject({ stdout: "", code: 2 });
    expect(group.stderr).toMatch(/^Usage: guest-forms keys/);
  });

  it("--help prints to standard output, and loads neither Prisma, pg, Express nor tRPC", async () => {
    const script = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`;
    const loader = script(`import { writeSync } from "node:fs";
      export function load(url, context, next) {
        writeSync(2, url + "\\n");
        return next(url, context);
      }`);
    const register = script(`import { register } from "node:module"; register(${JSON.stringify(loader)});`);
    const program = join(packageRoot(), "dist/gateway/cli.js");
    for (const [command, help] of [
      [["keys", "rotate"], /--grace <span> [\s\S]*default: 24h[\s\S]*Example:\n {2}guest-forms keys rotate/],
      [["serve"], /DRAIN_SECONDS\n[\s\S]*\(default: 10\)/],
    ] as const) {
      const args = ["--import", register, program, ...command, "--help"];
      const { stdout, stderr, code } = await spawnNode(args).done;
      expect({ stdout, code }).toEqual({ stdout: expect.stringMatching(help), code: 0 });
      expect(stderr).toContain("/node_modules/commander/");
      expect(stderr).not.toMatch(/\/(node_modules\/(@prisma|pg|express|@trpc)|prisma\/client)\//);
    }
  });

  it.each(["serve", "worker", "dev"])(
    "%s with an unreachable database prints its host and port without the password, and exits with 1",
    async (command) => {
      const port = await freePort();
      const DATABASE_URL = `postgres://someone:s3cr%2Ft@127.0.0.1:${port}/forms`;
      const { stdout, stderr, code } = await runCli([command], { env: { DATABASE_URL } });
      expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
      expect(stderr).not.toMatch(/s3cr|node:internal|\n +at /);
      expect(stderr).toMatch(new RegExp(`error: [^\\n]*127\\.0\\.0\\.1:${port}[^\\n]*\\n$`));
    },
  );

  it("two migrate commands at the same time apply each migration once, and a later one applies none", async () => {
    const { url: DATABASE_URL } = await createTestDatabase({ empty: true });
    const runs = await Promise.all(
      [1, 2].map(() => runCli(["migrate", "--json"], { env: { DATABASE_URL } })),
    );
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    const applied = runs.flatMap(({ stdout }) => JSON.parse(stdout).applied);
    expect(applied.length).toBeGreaterThan(0);
    expect(new Set(applied).size).toBe(applied.length);
    expect((await runInProcess(["migrate"], { DATABASE_URL })).stdout).toBe(
      "The database is already up to date.\n",
    );
  });
});

describe("serve and worker", TIMEOUT, () => {
  it("serve finishes a request in flight after SIGTERM and exits with 0", async () => {
    const { env, listing, key } = await makeFixture();
    const serve = spawnCli(["serve", "--json"], { env });
    const [, address = ""] = await serve.waitForLine(/^\{"url":"(.+)"\}$/);
    const body = JSON.stringify(uniqueStay(listing.id));
    const sent = request(`${address}/v1/forms`, {
      method: "POST",
      headers: { "X-API-Key": key.key, "Content-Type": "application/json", "Content-Length": body.length },
    });
    const answered = once(sent, "response");
    await new Promise((flushed) => sent.write(body.slice(0, 20), flushed));
    // A response to a later request shows that this one has begun.
    expect((await fetch(`${address}/readyz`)).status).toBe(200);
    const stopped = serve.stop("SIGTERM");
    const isOpen = () =>
      fetch(`${address}/livez`).then(
        () => true,
        () => false,
      );
    await expect.poll(isOpen).toBe(false);
    sent.end(body.slice(20));
    const [response] = await answered;
    expect(response.statusCode).toBe(201);
    response.resume();
    const { code, stdout, stderr } = await stopped;
    expect({ code, stdout }).toEqual({ code: 0, stdout: `{"url":"${address}"}\n` });
    for (const line of stderr.trim().split("\n")) expect(() => JSON.parse(line)).not.toThrow();
  });

  it("serve --no-worker leaves notifications to worker, and both exit with 0 on SIGINT", async () => {
    const { env, services, listing, key } = await makeFixture();
    const serve = spawnCli(["serve", "--no-worker"], { env });
    const [, address] = await serve.waitForLine(/^Listening on (http:\S+);/);
    const body = uniqueStay(listing.id, { guestEmail: "guest@example.com" });
    const answer = await sendRequest(`${address}/v1/forms`, key.key, { method: "POST", body });
    const form = answer.json as { id: string };
    expect(answer.status).toBe(201);
    const waiting = { formId: form.id, state: "waiting", attempts: 0, lastError: null };
    const json = await runInProcess(["notifications", "--json"], env);
    expect(JSON.parse(json.stdout)).toMatchObject({ items: [waiting], nextCursor: null });
    const text = await runInProcess(["notifications"], env);
    expect(text.stdout).toMatch(/^ID +FORM ID +STATE[\s\S]* waiting /);

    const mailServer = await openMailServer();
    const worker = spawnCli(["worker", "--json"], { env: { ...env, ...mailEnv(mailServer.url) } });
    await worker.waitForLine(/^\{"concurrency":2\}$/);
    const [output] = await worker.waitForLine(/"msg":"notification /);
    expect(output).not.toContain("guest@example.com");
    const readNotifications = () => listNotifications(services);
    await vi.waitFor(async () => expect(await readNotifications()).toEqual([]), 60_000);
    expect((await worker.stop("SIGINT")).code).toBe(0);
    expect((await serve.stop("SIGINT")).code).toBe(0);
  });

  it("serve starts while migrations are pending, warns first, and is ready after migrate; a closed terminal (SIGHUP) shuts down serve and worker gracefully", async () => {
    const { url: DATABASE_URL } = await createTestDatabase({ empty: true });
    const env = { DATABASE_URL, APP_SECRETS: "0123456789abcdef0123456789abcdef" };
    const serve = spawnCli(["serve", "--no-worker"], { env: { ...env, PORT: "0" } });
    const [, address] = await serve.waitForLine(/^Listening on (http:\S+);/);
    // Before any other message about the database.
    expect(serve.stderr.split("\n")[0]).toMatch(/migrations are pending: run `guest-forms migrate`/);
    expect((await fetch(`${address}/readyz`)).status).toBe(503);
    expect(await runInProcess(["migrate"], env)).toMatchObject({ code: 0, message: "" });
    await expect.poll(async () => (await fetch(`${address}/readyz`)).status).toBe(200);
    const worker = spawnCli(["worker"], { env });
    await worker.waitForLine(/^Sending notifications/);
    for (const running of [serve, worker])
      expect(await running.stop("SIGHUP")).toMatchObject({ code: 0, signal: null });
  });

  it("migrate --dry-run prints the SQL and locks of pending migrations, and changes nothing", async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const upToDate = await runInProcess(["migrate", "--dry-run"], { DATABASE_URL });
    expect(upToDate).toMatchObject({ code: 0, stdout: "The database is already up to date.\n" });
    const name = "20261123000000_notification_crashes";
    await runSql(DATABASE_URL, "ALTER TABLE notifications DROP COLUMN crashes");
    await runSql(DATABASE_URL, `DELETE FROM _prisma_migrations WHERE migration_name = '${name}'`);
    const dryRun = await runInProcess(["migrate", "--dry-run"], { DATABASE_URL });
    expect(dryRun.stdout).toBe(
      `-- Migration ${name}\n\n-- Locks: notifications ACCESS EXCLUSIVE\n` +
        'ALTER TABLE "notifications" ADD COLUMN     "crashes" INTEGER NOT NULL DEFAULT 0;\n',
    );
    const json = await runInProcess(["migrate", "--dry-run", "--json"], { DATABASE_URL });
    expect(JSON.parse(json.stdout)).toMatchObject({ pending: [{ name, statements: [{ locks: [{}] }] }] });
  });

  it("a port in use is reported in one line", async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as { port: number };
    const env = { DATABASE_URL, LOG_LEVEL: "error" };
    const failed = await runCli(["serve", "--port", String(port)], { env });
    expectFailure(failed, 1, new RegExp(`Port ${port} on 127.0.0.1 is in use`));
    listener.close();
  });
});
