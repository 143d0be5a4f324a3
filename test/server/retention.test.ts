import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { BATCH_ROWS, RETENTION_TABLES } from "../../server/database/retention.js";
import { deleteOldRows } from "../../server/jobs.js";
import { readActivity } from "../../server/outbox/activity.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode } from "../support/factories.js";
import type { ListingOwner } from "../support/listing-owner.js";
import { commandEnv, startTestWorker } from "../support/mail-server.js";
import { spawnCli } from "../support/processes.js";

type Table = Exclude<(typeof RETENTION_TABLES)[number], "forms">;

/** Those with a retention by default: `form-retention.test.ts` tests that of forms. */
const TABLES = RETENTION_TABLES.filter((table) => table !== "forms");

const { services, operator, openProcess, holdLock, waitForBlocked, makeOwner } = await openTestCore();
let owner: ListingOwner;

beforeEach(async () => {
  await services.db.pool.query("TRUNCATE forms, webhook_endpoints, audit_entries, worker_activity CASCADE");
  owner = await makeOwner();
});

/** Runs SQL and returns the first column. */
async function run(sql: string, values: unknown[] = []): Promise<unknown[]> {
  const { rows } = await services.db.pool.query({ text: sql, values, rowMode: "array" });
  return rows.map(([value]) => value);
}

const countOf = async (table: Table) => Number((await run(`SELECT count(*) FROM ${table}`))[0]);

const countRows = () => Promise.all(TABLES.map(countOf));

/** Number of deleted rows by table, as counted for the metrics. */
async function countDeleted(): Promise<number[]> {
  const activity = await readActivity(services.db);
  return TABLES.map((table) => activity.get(`deleted.${table}`)?.count ?? 0);
}

/** Starts a worker with these settings, and waits for the end of its first run. Returns its log. */
async function runWorker(env: Record<string, string> = {}) {
  const before = await countRuns();
  const log = await startTestWorker(await openProcess(env));
  await expect.poll(countRuns, { timeout: 20_000 }).toBeGreaterThan(before);
  return log;
}

const countRuns = async () => (await readActivity(services.db)).get("retention.run")?.count ?? 0;

const INSERT_OLD: Record<Table, string> = {
  audit_entries: `INSERT INTO audit_entries (at, actor, action, subject_id, correlation_id)
    SELECT now() - $2 * interval '1 day', 'system', 'old', $1, gen_random_uuid() FROM generate_series(1, $3)`,
  emails: `INSERT INTO emails (id, kind, form_id, tenant_id, check_in_date, correlation_id, state, ended_at, next_attempt_at)
    SELECT -n, 'invitation', $1, $1, at, $1, 'sent', at, NULL
    FROM generate_series(1, $3) n, (SELECT now() - $2 * interval '1 day') AS of (at)`, // Earlier than the form's own.
  webhook_deliveries: `INSERT INTO webhook_deliveries
      (endpoint_id, event_id, event_type, form_id, correlation_id, state, ended_at, next_attempt_at)
    SELECT $1, gen_random_uuid(), 'form.created', $1, $1, 'failed', now() - $2 * interval '1 day', NULL
    FROM generate_series(1, $3)`,
  idempotency_keys: `INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
    SELECT holder_id, 'old ' || n, $1, now() - $2 * interval '1 day' FROM generate_series(1, $3) n, creations
    WHERE form_id = $1`,
};

/** Adds rows of this age to the tables, by default more than a batch of each. */
async function insertOld({ count = BATCH_ROWS + 200, days = 800, tables = [...TABLES] } = {}) {
  const { form } = await owner.create(owner.body);
  for (const table of tables) await run(INSERT_OLD[table], [form.id, days, count]);
  return form;
}

/** Blocks the batches of this table at their end, when they have deleted their rows. */
async function blockBatches(table: Table) {
  await run("INSERT INTO worker_activity VALUES ($1, 0, now())", [`deleted.${table}`]);
  return holdLock("SELECT FROM worker_activity WHERE name = $1 FOR UPDATE", [`deleted.${table}`]);
}

describe("the worker deletes", () => {
  test("audit entries older than AUDIT_RETENTION_DAYS, and no younger ones", async () => {
    const { form } = await owner.create(owner.body);
    await run(`INSERT INTO audit_entries (at, actor, action, subject_id, correlation_id)
      SELECT now() - age::interval, 'system', age, gen_random_uuid(), gen_random_uuid()
      FROM unnest('{1 day, 731 days, 9 days 1 hour, 10 days 1 hour, 729 days}'::text[]) age`);
    const left = () => run("SELECT action FROM audit_entries WHERE action LIKE '%day%' ORDER BY id");
    await runWorker();
    expect(await left()).toEqual(["1 day", "9 days 1 hour", "10 days 1 hour", "729 days"]);
    await runWorker({ AUDIT_RETENTION_DAYS: "10" });
    expect(await left()).toEqual(["1 day", "9 days 1 hour"]);
    const trail = await operator.audit.trail({ subjectId: form.id });
    expect(trail.map(({ action }) => action)).toEqual(["form.created"]);
  });

  const [PAST, FUTURE] = ["2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"];

  test("of the emails that ended EMAIL_RETENTION_DAYS ago those sent, and those that were not if the check-out is as long ago", async () => {
    /** State, time since its end, check-out, and whether it is kept. */
    const rows = [
      ["sent", "91 days", FUTURE, false],
      ["sent", "89 days", FUTURE, true],
      ...["failed", "expired"].flatMap((state) => [
        [state, "91 days", PAST, false],
        [state, "89 days", PAST, true],
        [state, "3000 days", FUTURE, true],
      ]),
      ...["waiting", "retrying", "running"].map((state) => [state, null, PAST, true]),
    ];
    for (const [state, age, checkOut] of rows) {
      const { id } = await owner.addForm();
      await run("UPDATE forms SET check_out_date = $2 WHERE id = $1", [id, checkOut]);
      await run(
        `INSERT INTO emails
           (kind, form_id, tenant_id, check_in_date, correlation_id, state, created_at, heartbeat_at, ended_at, next_attempt_at)
         VALUES ('other', $1, $1, now(), $1, ($2::text)::"EmailState", now() - interval '9 years', now(), now() - $3::interval,
           CASE WHEN $2::text IN ('waiting', 'retrying') THEN now() + interval '1 year' END)`,
        [id, state, age],
      );
    }
    const states = () => run("SELECT state::text FROM emails ORDER BY id");
    await runWorker();
    expect(await states()).toEqual(rows.filter(([, , , isKept]) => isKept).map(([state]) => state));
  });

  test("webhook deliveries 7 days after they were sent and 30 days after they ended otherwise, whatever the check-out, and none that waits", async () => {
    const { id } = await owner.addForm({ checkOutDate: FUTURE });
    const rows = [
      ["sent", "7 days 1 hour", false],
      ["sent", "6 days 23 hours", true],
      ...["failed", "expired", "out_of_scope"].flatMap((state) => [
        [state, "30 days 1 hour", false],
        [state, "29 days 23 hours", true],
      ]),
      ...["waiting", "retrying", "running"].map((state) => [state, null, true]),
    ];
    const { id: endpointId } = await operator.webhooks.create({ url: "https://example.com" });
    for (const [state, age] of rows) {
      await run(
        `INSERT INTO webhook_deliveries
           (endpoint_id, event_id, event_type, form_id, correlation_id, state, created_at, heartbeat_at, ended_at, next_attempt_at)
         VALUES ($4, $1, 'later.event', $1, $1, ($2::text)::"DeliveryState", now() - interval '9 years', now(), now() - $3::interval,
           CASE WHEN $2::text IN ('waiting', 'retrying') THEN now() + interval '1 year' END)`,
        [id, state, age, endpointId],
      );
    }
    const states = () => run("SELECT state::text FROM webhook_deliveries ORDER BY id");
    await runWorker();
    expect(await states()).toEqual(rows.filter(([, , isKept]) => isKept).map(([state]) => state));
  });

  test("Idempotency-Keys IDEMPOTENCY_KEY_RETENTION_DAYS after the check-out they were first sent with, and no earlier; an equal body is then a replay", async () => {
    const day = 86_400_000;
    const stayUntil = (ms: number) => ({ ...owner.body, checkInDate: PAST, checkOutDate: new Date(ms).toISOString() });
    const [future, late] = [stayUntil(Date.now() + day), stayUntil(Date.now() - 1000 * day)];
    const first = await owner.create(future, "future");
    await owner.create(future, "replay");
    await owner.create(late, "late");
    const keys = () => run("SELECT key FROM idempotency_keys ORDER BY key");
    // The form's own dates do not count.
    await run("UPDATE forms SET check_out_date = $1", [PAST]);
    // A key for a stay that is over is kept from its first use.
    for (const [days, left] of [
      [89, ["future", "late", "replay"]],
      [1.5, ["future", "replay"]],
      [1, []],
    ]) {
      await run("UPDATE idempotency_keys SET retention_starts_at = retention_starts_at - $1 * interval '1 day'", [
        days,
      ]);
      await runWorker();
      expect(await keys()).toEqual(left);
    }
    for (const key of ["future", undefined, "another"])
      expect(await owner.create(future, key)).toEqual({ form: first.form, replayed: true });
    // A retry whose key is forgotten cannot be told from a rebooked stay.
    await run("UPDATE forms SET status = 'CHECKED_OUT'");
    expect((await owner.create(late, "late")).replayed, "90 days after check-out").toBe(true);
    expect((await owner.create(future, "rebooked")).replayed, "before").toBe(false);
    const other = { ...future, numberOfGuests: 9 };
    expect((await owner.create(other, "replay")).replayed, "counts as never used").toBe(false);
  });

  test("in the last hour of IDEMPOTENCY_KEY_RETENTION_DAYS a new key is a replay too, because clocks may differ", async () => {
    const hour = 3_600_000;
    for (const [hoursLeft, replayed] of [
      [2, false],
      [0.5, true],
    ] as const) {
      const checkOutDate = new Date(Date.now() - (90 * 24 - hoursLeft) * hour).toISOString();
      const body = { ...owner.body, checkInDate: PAST, checkOutDate };
      await owner.create(body, `first, ${hoursLeft} h`);
      await run("UPDATE forms SET status = 'CHECKED_OUT'");
      expect((await owner.create(body, `second, ${hoursLeft} h`)).replayed).toBe(replayed);
    }
  });

  test("nothing from a table whose retention is 0", async () => {
    const tables = TABLES.filter((table) => table !== "webhook_deliveries");
    await insertOld({ count: 3, days: 30_000, tables });
    const before = await countRows();
    const kinds = ["AUDIT", "EMAIL", "IDEMPOTENCY_KEY"];
    await runWorker(Object.fromEntries(kinds.map((kind) => [`${kind}_RETENTION_DAYS`, "0"])));
    expect(await countRows()).toEqual(before);
    expect(await countDeleted()).toEqual([0, 0, 0, 0]);
    await runWorker();
    expect(await countDeleted()).toEqual(TABLES.map((table) => (table === "webhook_deliveries" ? 0 : 3)));
  });

  test("at most 500 rows per statement, until none is due, and counts and logs them", async () => {
    await insertOld({ count: 2 * BATCH_ROWS + 7 });
    await run("CREATE TABLE batch_sizes (of text, rows int)");
    await run(`CREATE FUNCTION record_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO batch_sizes SELECT TG_TABLE_NAME, count(*) FROM gone HAVING count(*) > 0;
      RETURN NULL; END $$`);
    onTestFinished(async () => {
      await run("DROP FUNCTION record_batch CASCADE");
      await run("DROP TABLE batch_sizes");
    });
    for (const table of TABLES) {
      await run(`CREATE TRIGGER record AFTER DELETE ON ${table} REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION record_batch()`);
    }
    const log = await runWorker();
    for (const table of TABLES) {
      const sizes = (await run("SELECT rows FROM batch_sizes WHERE of = $1", [table])).map(Number);
      // Young audit entries come first, and are read but not deleted.
      expect(sizes).toHaveLength(3);
      expect(Math.max(...sizes)).toBe(BATCH_ROWS);
      const facts = { table, rows: 2 * BATCH_ROWS + 7 };
      const message = "rows past their retention were deleted";
      expect(log).toContainEqual({ level: "info", facts, message });
    }
    expect(await countDeleted()).toEqual(TABLES.map(() => 2 * BATCH_ROWS + 7));
  });

  test("rows of a table for a limited time per run, and then those of the next table", async () => {
    const TIME_MS = 1;
    await insertOld();
    await deleteOldRows(services, { info() {} }, new AbortController().signal, TIME_MS);
    for (const count of await countDeleted()) {
      expect(count).toBeGreaterThan(0);
      expect(count).toBeLessThanOrEqual(BATCH_ROWS);
    }
    await runWorker();
    expect(await countDeleted()).toEqual(TABLES.map(() => BATCH_ROWS + 200));
  });

  test("rows of every other table if the batch of one fails, and then reports the failure", async () => {
    await insertOld({ count: 3 });
    const failing = {
      ...services.db,
      query: (name: string, text: string, values: string[]) =>
        name === "delete-old-emails"
          ? Promise.reject(new Error("statement timeout"))
          : services.db.query(name, text, values),
    };
    const [audit = 0, emails] = await countRows();
    await expect(
      deleteOldRows({ ...services, db: failing as never }, { info() {} }, new AbortController().signal),
    ).rejects.toThrow("statement timeout");
    expect(await countRows()).toEqual([audit - 3, emails, 0, 0]);
  });

  test("each row once if two workers start at once, one batch at a time", async () => {
    await insertOld({ count: 3 * BATCH_ROWS });
    const lock = await blockBatches("audit_entries");
    const logs = [await startTestWorker(services), await startTestWorker(services)];
    await waitForBlocked(1);
    // The other worker has found that it is not its turn, and has ended its run.
    await expect.poll(countRuns).toBe(1);
    await waitForBlocked(1);
    await lock.rollback();
    await expect.poll(countRuns).toBe(2);
    expect(await countDeleted()).toEqual(TABLES.map(() => 3 * BATCH_ROWS));
    expect(logs.flat().filter(({ level }) => level === "error")).toEqual([]);
  });

  test("a batch completely or not at all if it is killed; the next worker deletes the rest", async () => {
    await insertOld();
    const young = (await countRows()).map((count) => count - BATCH_ROWS - 200);
    const lock = await blockBatches("emails");
    const killed = spawnCli(["worker"], { env: commandEnv(services) });
    await waitForBlocked(1);
    await killed.stop("SIGKILL");
    await lock.rollback();
    const active = `SELECT pid FROM pg_stat_activity
      WHERE application_name = 'guest-forms' AND state = 'active' AND pid <> pg_backend_pid()`;
    await expect.poll(() => run(active)).toEqual([]);
    const deleted = await countDeleted();
    expect(deleted[0], "the table before").toBe(BATCH_ROWS + 200);
    expect([0, BATCH_ROWS]).toContain(deleted[1]);
    const counted = deleted.map((count, index) => (young[index] ?? 0) + BATCH_ROWS + 200 - count);
    expect(await countRows()).toEqual(counted);
    await runWorker();
    expect(await countRows()).toEqual(young);
    expect(await countDeleted()).toEqual(TABLES.map(() => BATCH_ROWS + 200));
  });

  test.each(TABLES)("rows of %s while no request waits", async (table) => {
    const form = await insertOld();
    const lock = await blockBatches(table);
    await startTestWorker(services);
    await waitForBlocked(1);
    for (const key of ["old 1", "new", undefined])
      expect(await owner.create(owner.body, key)).toEqual({ form, replayed: true });
    const other = { ...owner.body, numberOfGuests: 9 };
    expect(await catchErrorCode(owner.create(other, "old 2"))).toBe("IDEMPOTENCY_KEY_REUSED");
    const another = { ...other, guestEmail: "other@example.com" };
    expect((await owner.create(another, "newer")).replayed).toBe(false);
    await owner.forms.update({ id: form.id, ...other });
    await owner.forms.setStatus({ id: form.id, status: "COMPLETED" });
    expect((await owner.forms.list({})).items).toHaveLength(2);
    expect(await waitForBlocked(1), "the batch has not ended meanwhile").toHaveLength(1);
    await lock.rollback();
    await expect.poll(countDeleted).toEqual(TABLES.map(() => BATCH_ROWS + 200));
  });
});
