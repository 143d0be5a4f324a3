import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { CheckContext } from "../../gateway/doctor/check.js";
import { clockCheck } from "../../gateway/doctor/database.js";
import { examine } from "../../gateway/doctor/examine.js";
import { misspelledSettings } from "../../gateway/doctor/settings.js";
import { readSettings } from "../../server/config.js";
import type { Services } from "../../server/context.js";
import type { Db } from "../../server/db.js";
import { makeForm, makeListing, makeUser, openTestServices, TEST_SECRET } from "../support/factories.js";
import { openMailServer } from "../support/mail-server.js";
import { freePort } from "../support/network.js";
import { type ProcessResult, runCli } from "../support/processes.js";

const MAIL = {
  SMTP_FROM: "Forms <forms@example.org>",
  FORM_URL_TEMPLATE: "https://forms.example.org/{publicId}",
};

let services: Services;
let formId: string;
/** A server that accepts connections and never responds. */
let silentServer: Server;
/** `doctor` with only such servers. It takes 15 s, until its timeouts, so the other tests run meanwhile. */
let doctorWithSilentServers: Promise<ProcessResult>;

beforeAll(async () => {
  services = await openTestServices();
  const { id } = await makeUser(services);
  formId = (await makeForm(services, id, (await makeListing(services, id)).id)).id;
  silentServer = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silentServer, "listening");
  const { port } = silentServer.address() as AddressInfo;
  const serverUrl = (scheme: string) => `${scheme}://someone:s3cr3t@127.0.0.1:${port}/1`;
  doctorWithSilentServers = runDoctor(["--json"], {
    DATABASE_URL: serverUrl("postgres"),
    DATABASE_CONNECT_TIMEOUT_MS: "60000",
    REDIS_URL: serverUrl("redis"),
    SMTP_URL: serverUrl("smtp"),
    ...MAIL,
  });
});

afterAll(() => void silentServer.close());

afterEach(async () => {
  vi.useRealTimers();
  await sql("DELETE FROM notifications");
});

const sql = (text: string, values: unknown[] = []) => services.db.pool.query(text, values);

const runDoctor = (args: string[], env: Record<string, string>) =>
  runCli(["doctor", ...args], { env: { DATABASE_URL: services.db.url, APP_SECRETS: TEST_SECRET, ...env } });

interface Deployment {
  processes?: number;
  worker?: boolean;
}

/** Returns the result of each check by its name, with these variables. */
async function runChecks(
  variables: Record<string, string> = {},
  { processes = 1, worker = true }: Deployment = {},
) {
  const env = {
    DATABASE_URL: services.db.url,
    DATABASE_CONNECT_TIMEOUT_MS: "20000",
    DATABASE_STATEMENT_TIMEOUT_MS: "20000",
    APP_SECRETS: TEST_SECRET,
    ...variables,
  };
  const reports = await examine({ settings: readSettings(env), env, processes, worker });
  return Object.fromEntries(reports.map(({ name, status, message }) => [name, `${status}: ${message}`]));
}

const CHECKS = [
  ...["database", "schema", "secrets", "connections", "clock", "notifications"],
  ...["settings", "mail server", "redis"],
];

describe("doctor", () => {
  test("all checks are ok for a complete service", async () => {
    const results = await runChecks();
    expect(Object.keys(results)).toEqual(CHECKS);
    for (const [name, result] of Object.entries(results))
      expect([name, result]).toEqual([name, expect.stringMatching(/^ok: /)]);
    expect(results.database).toMatch(/^ok: PostgreSQL \d+.*, database \w+\.$/);
  });

  test("a misspelled setting is a warning that names the setting that was meant", async () => {
    const { settings } = await runChecks({ RATE_LIMIT_MX: "x" });
    expect(settings).toBe(
      "warning: Unknown settings: RATE_LIMIT_MX (did you mean RATE_LIMIT_MAX?). Rename or unset them.",
    );
  });

  test.each([
    ["RATE_LIMIT_MX", "RATE_LIMIT_MAX"],
    ["APP_SECRET", "APP_SECRETS"],
    ["REDIS_URI", "REDIS_URL"],
    ["DATABASE_POOL", "DATABASE_POOL_SIZE"],
    ["RATE_LIMIT_WINDOW", "RATE_LIMIT_WINDOW_SECONDS"],
    ["LOGLEVEL", "LOG_LEVEL"],
  ])("the variable %s is a misspelled %s", (name, meant) => {
    expect(misspelledSettings({ [name]: "x" })).toEqual([{ name, meant }]);
  });

  test("variables of other programs are no misspelled settings", () => {
    const names = `PATH HOME HOSTNAME POST HOSTS PGHOST PGPORT REDIS APP SMTP_HOST SMTP_USER DATABASE_NAME
      POSTGRES_PASSWORD NODE_OPTIONS NO_PROXY HTTPS_PROXY DATABASE_URL_TEST OTEL_SERVICE_NAME
      OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_LOGS_ENDPOINT LOGNAME LANG`.split(/\s+/);
    expect(misspelledSettings(Object.fromEntries(names.map((name) => [name, "x"])))).toEqual([]);
  });

  test("pending migrations fail, and migrations of a newer version are a warning", async () => {
    const { rows } = await sql("SELECT max(migration_name) AS last FROM _prisma_migrations");
    await sql(
      "UPDATE _prisma_migrations SET migration_name = '29990101000000_newer' WHERE migration_name = $1",
      [rows[0].last],
    );
    expect((await runChecks()).schema).toBe(
      `failed: Migrations are pending: ${rows[0].last}. Run \`guest-forms migrate\`.`,
    );
    await sql(
      `INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at, started_at)
       SELECT gen_random_uuid(), checksum, $1, finished_at, started_at FROM _prisma_migrations
       WHERE migration_name = '29990101000000_newer'`,
      [rows[0].last],
    );
    expect((await runChecks()).schema).toMatch(
      /^warning: A newer version of guest-forms migrated the database \(29990101000000_newer\)/,
    );
    await sql("DELETE FROM _prisma_migrations WHERE migration_name = '29990101000000_newer'");
    expect((await runChecks()).schema).toMatch(/^ok/);
  });

  test("the check of secrets reports where the secret is from, and fails if it is unknown or missing", async () => {
    expect((await runChecks()).secrets).toMatch(/^ok: The database knows APP_SECRETS/);
    const other = "a-secret of another process: 32 characters";
    expect((await runChecks({ APP_SECRETS: other })).secrets).toMatch(
      /^failed: The first secret in APP_SECRETS is unknown/,
    );
    expect((await runChecks({ APP_SECRETS: "" })).secrets).toMatch(/^failed: APP_SECRETS is not set, but/);
    await sql("DELETE FROM secret_checks");
    expect((await runChecks()).secrets).toMatch(
      /^warning: .* stop all processes before you start one with APP_SECRETS/,
    );
    const { secrets } = await runChecks({ APP_SECRETS: "" });
    expect(secrets).toMatch(/^ok: APP_SECRETS is not set: the secret is stored in the database/);
    const production = { NODE_ENV: "production", APP_SECRETS: "" };
    expect((await runChecks(production)).secrets).toMatch(/^warning: .* Set APP_SECRETS\.$/);
    await sql("DELETE FROM stored_secrets");
    expect((await runChecks(production)).secrets).toMatch(/^failed: There is no secret/);
  });

  test("more connections of all processes than Postgres allows are a warning, and so is a key holder's share of more than half", async () => {
    const sizes = { DATABASE_POOL_SIZE: "20", WORKER_CONCURRENCY: "3" };
    expect((await runChecks(sizes)).connections).toMatch(
      /^ok: 1 process opens at most 27 connections, Postgres allows \d+\.$/,
    );
    expect((await runChecks(sizes, { processes: 2, worker: false })).connections).toMatch(
      /^ok: 2 processes open at most 42 connections, Postgres allows \d+\.$/,
    );
    expect((await runChecks(sizes, { processes: 400 })).connections).toMatch(
      /^warning: 400 processes open at most 10800 connections, Postgres allows \d+: .*DATABASE_POOL_SIZE/,
    );
    const large = { ...sizes, DATABASE_CONNECTIONS_PER_HOLDER: "11" };
    expect((await runChecks(large)).connections).toBe(
      "warning: One key holder may use 11 of the 20 connections of a process: lower DATABASE_CONNECTIONS_PER_HOLDER to " +
        "half of DATABASE_POOL_SIZE or less.",
    );
    const { rows } = await sql("SELECT current_database() AS name");
    await sql(`ALTER DATABASE "${rows[0].name}" CONNECTION LIMIT 24`);
    expect((await runChecks(sizes)).connections).toMatch(
      /^warning: 1 process opens at most 27 connections, Postgres allows 24: /,
    );
    await sql(`ALTER DATABASE "${rows[0].name}" CONNECTION LIMIT -1`);
  });

  test.each([
    [1_000, 0, "ok"],
    [-1_000, 0, "ok"],
    [1_100, 0, "1.1 s ahead of"],
    [-1_100, 0, "1.1 s behind"],
    [-61_000, 0, "61.0 s behind"],
    // The database may have read its clock at any time of the round trip.
    [1_500, 1_200, "ok"],
    [1_700, 1_200, "1.7 s ahead of"],
  ])(
    "a clock that is %d ms ahead, measured in %d ms, is reported as: %s",
    async (offset, roundTrip, result) => {
      vi.useFakeTimers({ toFake: ["Date"] });
      const sent = Date.now();
      const query = async () => {
        vi.setSystemTime(sent + roundTrip);
        return [{ now: new Date(sent + roundTrip / 2 - offset).toISOString() }];
      };
      const { status, message } = await clockCheck.run({} as CheckContext, { query } as unknown as Db);
      expect(message).toMatch(result === "ok" ? /^The clocks .* agree within a second/ : result);
      expect(status).toBe(result === "ok" ? "ok" : "warning");
    },
  );

  test("the clock of the process is compared with the database's", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
    const { clock = "" } = await runChecks();
    const seconds = Number(/^warning: This machine's clock is ([\d.]+) s ahead of/.exec(clock)?.[1]);
    // Less the time since the clock was set and stopped.
    expect(seconds).toBeGreaterThan(3_500);
    expect(seconds).toBeLessThanOrEqual(3_600);
  });

  test("notifications that failed, are overdue or belong to a stale worker are a warning", async () => {
    const add = (state: string, due: string | null, heartbeat: string | null) =>
      sql(
        `INSERT INTO notifications (kind, form_id, state, next_attempt_at, heartbeat_at)
         VALUES ('form.created', $1, $2, now() + $3::interval, now() + $4::interval)`,
        [formId, state, due, heartbeat],
      );
    await add("waiting", "0 s", null);
    await add("retrying", "1 h", null);
    await add("running", "-1 h", "-1 s");
    expect((await runChecks()).notifications).toBe("ok: 2 waiting, none overdue or failed.");
    await add("waiting", "-2 min", null);
    await add("running", "-1 h", "-1 min");
    await add("failed", null, null);
    await add("failed", null, null);
    expect((await runChecks()).notifications).toMatch(
      /^warning: 1 overdue by more than a minute: .* 1 left by a stale worker: .* 2 failed: run `guest-forms notifications`/,
    );
  });

  test("the check of the mail server logs in and sends nothing", async () => {
    const mailServer = await openMailServer({
      authOptional: false,
      allowInsecureAuth: true,
      disabledCommands: ["STARTTLS"],
      onAuth: ({ username, password }, _session, done) =>
        username === "host" && password === "open sesame"
          ? done(null, { user: username })
          : done(new Error(`no ${password}`)),
    });
    const mail = async (login: string) =>
      runChecks({ ...MAIL, SMTP_URL: `smtp://${login}@127.0.0.1:${mailServer.port}` });
    expect(await mail("host:open%20sesame")).toMatchObject({
      "mail server": `ok: The mail server at 127.0.0.1:${mailServer.port} answers.`,
    });
    const refused = await mail("host:s3cr%2Ft");
    expect(refused).toMatchObject({
      "mail server": expect.stringMatching(/^failed: .* cannot be used: .*535/),
    });
    expect(JSON.stringify(refused)).not.toMatch(/s3cr/);
    expect([mailServer.received, mailServer.rcptCount]).toEqual([[], 0]);
    expect((await runChecks({ NODE_ENV: "production" }))["mail server"]).toMatch(
      /^warning: SMTP_URL is not set/,
    );
  });
});

describe("guest-forms doctor", { timeout: 240_000 }, () => {
  test("doctor prints one line per check, and exits with 0 if there are only warnings", async () => {
    const { stdout, stderr, code } = await runDoctor([], { RATE_LIMIT_MX: "1" });
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.slice(9, 24).trim())).toEqual(CHECKS);
    expect(lines[6]).toMatch(/^warning {2}settings +Unknown settings: RATE_LIMIT_MX /);
  });

  test("invalid settings and a missing DATABASE_URL are failed checks", async () => {
    const bad = await runDoctor(["--json"], { PORT: "abc", APP_SECRETS: "hunter2" });
    expect(bad).toMatchObject({ code: 1, stderr: "" });
    const message = expect.stringMatching(/^PORT is "abc".* APP_SECRETS is a/);
    const checks = [{ name: "settings", status: "failed", message }];
    expect(JSON.parse(bad.stdout)).toEqual({ ok: false, checks });
    expect(bad.stdout).not.toContain("hunter2");
    const { database } = await runChecks({ DATABASE_URL: "", NODE_ENV: "production" });
    expect(database).toBe("failed: DATABASE_URL is not set.");
    const unreachable = `redis://127.0.0.1:${await freePort()}`;
    expect((await runChecks({ REDIS_URL: unreachable })).redis).toMatch(
      /^failed: Redis at 127\S+ cannot be used: .*ECONNREFUSED/,
    );
  });

  test("doctor exits with 1 if servers never respond, and prints no secret", async () => {
    const { stdout, stderr, code } = await doctorWithSilentServers;
    expect({ stderr, code }).toEqual({ stderr: "", code: 1 });
    const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: { name: string; status: string }[] };
    expect(ok).toBe(false);
    expect(Object.fromEntries(checks.map(({ name, status }) => [name, status]))).toEqual({
      ...Object.fromEntries(CHECKS.map((name) => [name, "skipped"])),
      database: "failed",
      settings: "ok",
      "mail server": "failed",
      redis: "failed",
    });
    expect(stdout).not.toMatch(/s3cr3t|a-secret/);
  });
});
