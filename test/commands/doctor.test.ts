import { afterEach, describe, expect, test, vi } from "vitest";
import { type CheckContext, DATABASE_CHECKS } from "../../gateway/doctor/checks.js";
import { examine } from "../../gateway/doctor/examine.js";
import { misspelledSettings } from "../../gateway/doctor/misspelled.js";
import { readSettings } from "../../server/config.js";
import type { Db } from "../../server/database/db.js";
import { openTestCore } from "../support/core.js";
import { commandEnv, openMailServer } from "../support/mail-server.js";

const MAIL = {
  SMTP_FROM: "Forms <forms@example.org>",
  FORM_URL_TEMPLATE: "https://forms.example.org/{publicId}",
};

const { services, owner, sql } = await openTestCore();
const { id: formId } = await owner.addForm();

/** As if a worker had just sent a heartbeat and run the retention. */
await sql(
  "INSERT INTO worker_activity (name, count, last_at) VALUES ('worker.with_mailer', 1, now() + interval '1 h'), ('retention.run', 1, now())",
);

afterEach(() => void vi.useRealTimers());

/** Returns the result of each check by its name, with these variables. */
async function runChecks(variables: Record<string, string> = {}, processes = 1, worker = true) {
  const env = { ...commandEnv(services), ...variables };
  const reports = await examine({ settings: readSettings(env), env, processes, worker });
  return Object.fromEntries(reports.map(({ name, status, message }) => [name, `${status}: ${message}`]));
}

const CHECKS =
  "database, schema, writes, secrets, connections, standby reads, clock, time zones, languages, workers, emails, webhooks, settings, links, retention, email templates, mail server, redis".split(
    ", ",
  );

describe("doctor", () => {
  test("all checks are ok for a complete service", async () => {
    const results = await runChecks();
    expect(Object.keys(results)).toEqual(CHECKS);
    for (const result of Object.values(results)) expect(result).toMatch(/^ok: /);
    expect(results.database).toMatch(/^ok: PostgreSQL \d+.*, database \w+\.$/);
  });

  test("says that forms are kept, or after how many days they are deleted, and neither is a warning", async () => {
    expect((await runChecks()).retention).toBe("ok: FORM_RETENTION_DAYS is 0: forms are kept.");
    const { retention } = await runChecks({ FORM_RETENTION_DAYS: "400" });
    expect(retention).toBe("ok: Workers delete forms 400 days after check-out.");
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

  test("pending migrations fail, also if another version has migrated the database, and migrations of a newer version are a warning", async () => {
    const NEWER = "29990101000000_newer";
    const names = "string_agg(migration_name, ', ' ORDER BY migration_name)";
    const [{ all, last }] = await sql(`SELECT ${names} AS all, max(migration_name) AS last FROM _prisma_migrations`);
    const rename = "UPDATE _prisma_migrations SET migration_name = $1 WHERE migration_name = $2";
    await sql("UPDATE _prisma_migrations SET finished_at = NULL");
    expect((await runChecks()).schema).toBe(`failed: Migrations are pending: ${all}. Run \`guest-forms migrate\`.`);
    await sql("UPDATE _prisma_migrations SET finished_at = now()");
    await sql(rename, NEWER, last);
    expect((await runChecks()).schema).toMatch(
      /^failed: .* another version of guest-forms has migrated it \(.*29990101000000_newer\): run that version/,
    );
    await sql(
      `INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
       SELECT gen_random_uuid(), checksum, $1, finished_at FROM _prisma_migrations WHERE migration_name = $2`,
      last,
      NEWER,
    );
    expect((await runChecks()).schema).toMatch(
      /^warning: A newer version of guest-forms migrated the database \(29990101000000_newer\)/,
    );
    await sql("DELETE FROM _prisma_migrations WHERE migration_name = $1", NEWER);
    expect((await runChecks()).schema).toMatch(/^ok/);
  });

  test("the check of secrets fails if they are unknown or missing", async () => {
    expect((await runChecks()).secrets).toMatch(/^ok: The database knows APP_SECRETS/);
    const other = "a-secret of another process: 32 characters";
    expect((await runChecks({ APP_SECRETS: other })).secrets).toMatch(
      /^failed: The first secret in APP_SECRETS is unknown/,
    );
    expect((await runChecks({ APP_SECRETS: "" })).secrets).toMatch(/^failed: APP_SECRETS is not set: .*openssl rand/);
    await sql("DELETE FROM secret_checks");
    expect((await runChecks()).secrets).toBe("ok: The next start registers APP_SECRETS.");
  });

  test("more connections of all processes than Postgres allows are a warning, and so is a key holder's share of more than half", async () => {
    // A worker opens 8, whatever WORKER_CONCURRENCY is.
    const sizes = { DATABASE_POOL_SIZE: "20", WORKER_CONCURRENCY: "50" };
    const check = async (...args: Parameters<typeof runChecks>) => (await runChecks(...args)).connections;
    expect(await check(sizes)).toMatch(/^ok: 1 process opens at most 30 connections, Postgres allows \d+\.$/);
    expect(await check(sizes, 2, false)).toMatch(/^ok: 2 processes open at most 44 connections, /);
    expect(await check(sizes, 400)).toMatch(
      /^warning: 400 processes open at most 12000 connections, Postgres allows \d+: .*DATABASE_POOL_SIZE/,
    );
    expect(await check({ ...sizes, DATABASE_CONNECTIONS_PER_HOLDER: "11" })).toMatch(
      /^warning: One key holder may use 11 of the 20 connections of a process: lower DATABASE_CONNECTIONS_PER_HOLDER/,
    );
    const [{ name }] = await sql("SELECT current_database() AS name");
    const limit = `ALTER DATABASE "${name}" CONNECTION LIMIT`;
    await sql(`${limit} 24`);
    expect(await check(sizes)).toMatch(/^warning: 1 process opens at most 30 connections, Postgres allows 24: /);
    await sql(`${limit} -1`);
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
  ])("a clock that is %d ms ahead, measured in %d ms, is reported as: %s", async (offset, roundTrip, result) => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const sent = Date.now();
    const query = async () => {
      vi.setSystemTime(sent + roundTrip);
      return [{ now: new Date(sent + roundTrip / 2 - offset).toISOString() }];
    };
    const { status, message } = await DATABASE_CHECKS.clock({} as CheckContext, { query } as unknown as Db);
    const isOk = result === "ok";
    expect(message).toMatch(isOk ? /^The clocks .* agree within a second/ : result);
    expect(status).toBe(isOk ? "ok" : "warning");
  });

  test("active listings in a language without email templates are counted, with the language that guests get, and are no warning", async () => {
    const inTemplates = "ok: There are email templates in the languages of all active listings.";
    const addListing = async (language: string | null, active = true) => {
      const { id } = await owner.addListing();
      await sql("UPDATE listings SET language = $1, active = $2 WHERE id = $3", language, active, id);
    };
    await Promise.all([addListing(null), addListing("pt-BR"), addListing("de-AT"), addListing("ja", false)]);
    expect((await runChecks()).languages).toBe(inTemplates);
    await Promise.all(["ja", "ja", "th", "ent", "sw", "sw-KE"].map((language) => addListing(language)));
    expect((await runChecks({ EMAIL_LANGUAGE: "de" })).languages).toBe(
      "ok: Active listings in a language without email templates, whose guests get EMAIL_LANGUAGE (de): 6 (ja 2, ent 1, sw 1, others 2).",
    );
    await sql("UPDATE listings SET language = NULL");
    expect((await runChecks()).languages).toBe(inTemplates);
  });

  test("emails that failed, are overdue or belong to a stale worker are a warning", async () => {
    const add = (state: string, due: string | null, heartbeat: string | null) =>
      sql(
        `INSERT INTO emails
           (kind, form_id, tenant_id, check_in_date, correlation_id, state, next_attempt_at, heartbeat_at, ended_at)
         VALUES ('invitation', $1, $1, now(), $1, $2, now() + $3::interval, now() + $4::interval,
           CASE WHEN $3::interval IS NULL AND $4::interval IS NULL THEN now() END)`,
        formId,
        state,
        due,
        heartbeat,
      );
    await add("waiting", "0 s", null);
    await add("retrying", "1 h", null);
    await add("running", null, "-1 s");
    expect((await runChecks()).emails).toBe("ok: 2 waiting, none overdue, failed or bounced.");
    await add("waiting", "-2 min", null);
    await add("running", null, "-1 min");
    await add("failed", null, null);
    await add("failed", null, null);
    await add("bounced", null, null);
    await add("dismissed", null, null);
    expect((await runChecks()).emails).toMatch(
      /^warning: 1 overdue by more than a minute: .* 1 left by a stale worker: .* 2 failed: run `guest-forms emails list --state failed`, then retry or dismiss them\. 1 bounced: run `guest-forms emails list --state bounced`/,
    );
  });

  test("deliveries that are overdue, endpoints that were disabled because they failed, and private addresses in production are a warning", async () => {
    const addEndpoint = async (failingSince: string | null, disabledReason: string | null) => {
      const [{ id }] = await sql(
        `INSERT INTO webhook_endpoints (url, secret, failing_since, disabled_reason, disabled_at)
         VALUES ('https://example.com', '', $1, $2, CASE WHEN $2::text IS NULL THEN NULL ELSE now() END) RETURNING id`,
        failingSince,
        disabledReason,
      );
      return id;
    };
    const addDelivery = (endpointId: string, due: string) =>
      sql(
        `INSERT INTO webhook_deliveries (endpoint_id, event_id, event_type, correlation_id, next_attempt_at)
         VALUES ($1, gen_random_uuid(), 'webhook.test', gen_random_uuid(), now() + $2::interval)`,
        endpointId,
        due,
      );
    const [working, failing] = [await addEndpoint(null, null), await addEndpoint("2030-01-01", null)];
    await addEndpoint(null, "manual");
    await addDelivery(working, "-10 s");
    await addDelivery(failing, "-1 h");
    const allow = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
    expect((await runChecks(allow)).webhooks).toBe(
      "warning: Endpoints that fail: 1. Run `guest-forms webhooks list`, and tell their owners.",
    );
    await sql("DELETE FROM webhook_endpoints WHERE id = $1", failing);
    expect((await runChecks(allow)).webhooks).toBe(
      "ok: Endpoints enabled: 1, none fails. Deliveries waiting: 1, none overdue.",
    );
    expect((await runChecks({ ...allow, NODE_ENV: "production" })).webhooks).toMatch(
      /^warning: WEBHOOK_ALLOW_PRIVATE_ADDRESSES lets owners of endpoints reach your internal services: unset it\.$/,
    );
    await addDelivery(working, "-2 min");
    for (const reason of ["gone", "failing"]) await addEndpoint("2020-01-01", reason);
    expect((await runChecks()).webhooks).toMatch(
      /^warning: Deliveries overdue by more than a minute: 1\. .* Endpoints disabled because they failed: 2\. Run `guest-forms webhooks list`/,
    );
  });

  test("no heartbeat of any worker, none of one that sends mail, and no retention run for two hours are a warning", async () => {
    const check = async (env: Record<string, string> = {}) => {
      const settings = readSettings({ ...commandEnv(services), ...env });
      const reports = await examine({ settings, env, processes: 1, worker: true }, ["workers"]);
      const { status, message } = reports.find(({ name }) => name === "workers") ?? {};
      return `${status}: ${message}`;
    };
    const set = (name: string, age: string) =>
      sql(
        `INSERT INTO worker_activity (name, count, last_at) VALUES ($1, 1, now() - $2::interval)
         ON CONFLICT (name) DO UPDATE SET last_at = excluded.last_at`,
        name,
        age,
      );
    const mail = { ...MAIL, SMTP_URL: "smtp://127.0.0.1:1" };
    await sql("DELETE FROM worker_activity");
    expect(await check()).toBe("warning: No worker has sent a heartbeat: run `serve` or `worker`.");
    await set("worker.without_mailer", "10 s");
    await set("worker.with_mailer", "21 s");
    expect(await check(mail)).toMatch(
      /^warning: No worker that sends mail is running: .* No retention run has ended yet\. Unless the worker has just started, /,
    );
    await set("retention.run", "119 min");
    expect(await check()).toBe("ok: Workers send heartbeats, and the retention runs every hour.");
    await set("retention.run", "121 min");
    expect(await check()).toMatch(
      /^warning: No retention run has ended since \d{4}-.*: search the log of the workers for `the retention failed`\.$/,
    );
    await set("worker.without_mailer", "21 s");
    expect(await check()).toMatch(
      /^warning: No worker has sent a heartbeat since \d{4}-.*Z: run `serve` or `worker`\.$/,
    );
    await set("worker.with_mailer", "0 s");
    await set("retention.run", "0 s");
  });

  test("the check of the mail server logs in and sends nothing", async () => {
    const mailServer = await openMailServer({
      authOptional: false,
      allowInsecureAuth: true,
      disabledCommands: ["STARTTLS"],
      onAuth: ({ username, password }, _session, done) =>
        done(password === "open sesame" ? null : new Error(`no ${password}`), { user: username }),
    });
    const address = `127.0.0.1:${mailServer.port}`;
    const check = async (env: Record<string, string>) => (await runChecks(env))["mail server"];
    const login = (password: string) => check({ ...MAIL, SMTP_URL: `smtp://host:${password}@${address}` });
    expect(await login("open%20sesame")).toBe(`ok: The mail server at ${address} answers.`);
    const refused = await login("s3cr%2Ft");
    expect(refused).toMatch(/^failed: .* cannot be used: .*535/);
    expect(refused).not.toMatch(/s3cr/);
    expect([mailServer.received, mailServer.rcptCount]).toEqual([[], 0]);
    expect(await check({ NODE_ENV: "production" })).toMatch(/^warning: SMTP_URL is not set/);
  });
});
