import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { deleteOldRows } from "../../server/jobs.js";
import { readActivity } from "../../server/outbox/activity.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode } from "../support/factories.js";
import type { ListingOwner } from "../support/listing-owner.js";
import { commandEnv } from "../support/mail-server.js";
import { runCli, spawnCli } from "../support/processes.js";

const { services, operator, holdLock, waitForBlocked, makeOwner, sql } = await openTestCore();
let owner: ListingOwner;

beforeEach(async () => {
  await sql("TRUNCATE forms, webhook_endpoints, audit_entries, worker_activity CASCADE");
  owner = await makeOwner();
});

const BATCH = 50;

/** Runs the retention once, by default with 100 days. Returns its log. */
async function runRetention(days = 100, on = services, signal = new AbortController().signal) {
  const log: [object, string][] = [];
  const info = (...line: [object, string]) => void log.push(line);
  await deleteOldRows({ ...on, settings: { ...on.settings, FORM_RETENTION_DAYS: days } }, { info }, signal);
  return log;
}

/** Creates a form whose check-out was that long ago, and whose emails and deliveries have ended. */
async function addOld(checkOut = "101 days", on = owner) {
  const form = await on.addForm({ guestEmail: "guest@example.com" });
  await sql(
    `UPDATE forms SET check_in_date = now() - $2::interval - interval '7 days', check_out_date = now() - $2::interval
     WHERE id = $1`,
    form.id,
    checkOut,
  );
  await endMessages(form.id);
  return form;
}

/** As if all emails and deliveries about the form had been sent. */
const endMessages = (formId: string) =>
  sql(
    `WITH email AS (UPDATE emails SET state = 'sent', next_attempt_at = NULL, ended_at = now() WHERE form_id = $1)
     UPDATE webhook_deliveries SET state = 'sent', next_attempt_at = NULL, ended_at = now() WHERE form_id = $1`,
    formId,
  );

/** Creates that many forms on a listing, by SQL. */
const addMany = (count: number, listingId = owner.listingId) =>
  sql(
    `INSERT INTO forms (public_id, listing_id, fingerprint, check_in_date, check_out_date)
     SELECT gen_random_uuid(), $1, '\\x00', now() - interval '300 days' - n % 20 * interval '1 day', now() - interval '200 days'
     FROM generate_series(1, $2::int) n`,
    listingId,
    count,
  );

const idsLeft = async () => (await sql("SELECT id FROM forms ORDER BY created_at, id")).map(({ id }) => id);
const countForms = async () => (await idsLeft()).length;
const deletedEntries = () => sql("SELECT subject_id, actor, details FROM audit_entries WHERE action = 'form.deleted'");
const countDeleted = async () => (await readActivity(services.db)).get("deleted.forms")?.count ?? 0;

/** Records the number of forms that each statement deletes, until the test ends. */
async function recordBatches(): Promise<() => Promise<number[]>> {
  await sql("CREATE TABLE batches (id serial, forms int)");
  await sql(`CREATE FUNCTION record_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO batches (forms) SELECT count(*) FROM gone HAVING count(*) > 0;
    RETURN NULL; END $$`);
  await sql(`CREATE TRIGGER record AFTER DELETE ON forms REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION record_batch()`);
  onTestFinished(async () => {
    await sql("DROP FUNCTION record_batch CASCADE");
    await sql("DROP TABLE batches");
  });
  return async () => (await sql("SELECT forms FROM batches ORDER BY id")).map(({ forms }) => forms);
}

/** Blocks batches at their end, when they have deleted their forms. */
async function blockBatches() {
  await sql("INSERT INTO worker_activity VALUES ('deleted.forms', 0, now())");
  return holdLock("SELECT FROM worker_activity WHERE name = 'deleted.forms' FOR UPDATE");
}

/** The number of rows about forms, by table. */
async function countRows() {
  const tables = ["forms", "creations", "idempotency_keys", "emails", "webhook_deliveries", "scoped_forms"];
  const counts = tables.map((table) => `(SELECT count(*)::int FROM ${table}) AS ${table}`);
  return (await sql(`SELECT ${counts.join()}`))[0];
}

describe("forms past FORM_RETENTION_DAYS", () => {
  test("are deleted with all their rows, and nothing else is; the audit trail says when", async () => {
    await operator.webhooks.create({ url: "https://example.com" });
    await addOld("99 days");
    const before = await countRows();
    const entries = await sql("SELECT id FROM audit_entries ORDER BY id");
    const { form } = await owner.create(owner.body, "key");
    await owner.create(owner.body, "other key");
    await sql(
      "UPDATE forms SET check_in_date = now() - interval '102 days', check_out_date = now() - interval '101 days' WHERE id = $1",
      form.id,
    );
    await endMessages(form.id);
    const increase = { forms: 1, creations: 1, idempotency_keys: 2, emails: 1, webhook_deliveries: 1, scoped_forms: 1 };
    const after = Object.entries(increase).map(([table, more]) => [table, before[table] + more]);
    expect(await countRows()).toEqual(Object.fromEntries(after));

    expect(await runRetention()).toContainEqual([
      { table: "forms", rows: 1 },
      "rows past their retention were deleted",
    ]);
    expect(await countRows()).toEqual(before);
    expect(await countDeleted()).toBe(1);
    expect(await catchErrorCode(owner.forms.get({ id: form.id }))).toBe("RESOURCE_NOT_FOUND");
    expect((await sql("SELECT id FROM audit_entries ORDER BY id")).slice(0, entries.length)).toEqual(entries);
    const trail = await operator.audit.trail({ subjectId: form.id });
    expect(trail.map(({ action, actor, details }) => [action, actor, details])).toEqual([
      ["form.deleted", "system", { reason: "retention", listingId: owner.listingId }],
      ["form.email_erased", "system", { reason: "retention" }],
      ["form.created", "user", { listingId: owner.listingId }],
    ]);
    const command = await runCli(["forms", "trail", form.id], { env: commandEnv(services) });
    expect(command.stdout).toContain("form.deleted");
  });

  test("are kept if it is 0, the default", async () => {
    await addOld("30000 days");
    await sql("UPDATE forms SET check_in_date = NULL");
    await addOld("30000 days");
    expect(services.settings.FORM_RETENTION_DAYS).toBe(0);
    await runRetention(services.settings.FORM_RETENTION_DAYS);
    expect(await countForms()).toBe(2);
  });

  test("are those whose check-out is longer ago, also by one minute, whenever they were created or changed", async () => {
    const kept = await addOld("99 days 23 hours 59 minutes");
    await addOld("100 days 1 minute");
    const long = await addOld("1 day");
    await sql("UPDATE forms SET check_in_date = now() - interval '300 days' WHERE id = $1", long.id);
    const future = await owner.addForm();
    await runRetention();
    expect(await idsLeft()).toEqual([kept.id, long.id, future.id]);
  });

  test("count from the latest time that is known if they have no check-out", async () => {
    const ids: string[] = [];
    for (const [checkIn, created, isKept] of [
      ["200 days", "101 days", false],
      ["101 days", "200 days", false],
      [null, "101 days", false],
      ["200 days", "99 days", true],
      ["99 days", "200 days", true],
      [null, "99 days", true],
    ] as const) {
      const { id } = await addOld();
      await sql(
        `UPDATE forms SET check_in_date = now() - $2::interval, check_out_date = NULL, created_at = now() - $3::interval
         WHERE id = $1`,
        id,
        checkIn,
        created,
      );
      if (isKept) ids.push(id);
    }
    // A check-out without a check-in counts as any other.
    const { id } = await addOld();
    await sql("UPDATE forms SET check_in_date = NULL WHERE id = $1", id);
    await runRetention();
    expect((await idsLeft()).sort()).toEqual(ids.sort());
  });

  test("are deleted in batches of 50, until none is due", async () => {
    const batches = await recordBatches();
    await addMany(2 * BATCH + 7);
    await runRetention();
    expect(await batches()).toEqual([BATCH, BATCH, 7]);
    expect(await countDeleted()).toBe(2 * BATCH + 7);
    expect(await deletedEntries()).toHaveLength(2 * BATCH + 7);
  });

  test("on a listing with many members are deleted in batches of fewer", async () => {
    const batches = await recordBatches();
    await sql(
      `WITH member AS (INSERT INTO users (email) SELECT 'member' || n || '@example.com' FROM generate_series(1, 199) n RETURNING id)
       INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
       SELECT member.id, l.id, l.created_at, 'WRITER' FROM member, listings l WHERE l.id = $1`,
      owner.listingId,
    );
    await addMany(25);
    expect((await countRows()).scoped_forms).toBe(25 * 200);
    await runRetention();
    expect(await batches()).toEqual([10, 10, 5]);
    expect((await countRows()).scoped_forms).toBe(0);
  });

  test.each([
    ["that a request has locked", "SELECT FROM forms WHERE id = $1 FOR NO KEY UPDATE"],
    [
      "whose listing is locked",
      "SELECT FROM listings WHERE id = (SELECT listing_id FROM forms WHERE id = $1) FOR UPDATE",
    ],
  ])("%s are skipped, and deleted by the next run", async (_, lockSql) => {
    const [locked] = [await addOld(), await addOld("101 days", await makeOwner())];
    const lock = await holdLock(lockSql, [locked.id]);
    await runRetention();
    expect(await idsLeft()).toEqual([locked.id]);
    await lock.commit();
    await runRetention();
    expect(await idsLeft()).toEqual([]);
  });

  test.each([
    ["emails", "EmailState"],
    ["webhook_deliveries", "DeliveryState"],
  ])("stay while a worker sends one of their %s, or will", async (table, type) => {
    await operator.webhooks.create({ url: "https://example.com" });
    const { id } = await addOld();
    for (const state of ["running", "waiting", "retrying"]) {
      await sql(
        `UPDATE ${table} SET state = $2::"${type}", ended_at = NULL,
           next_attempt_at = CASE WHEN $2 <> 'running' THEN now() + interval '1 year' END
         WHERE form_id = $1`,
        id,
        state,
      );
      await runRetention();
      expect(await idsLeft(), state).toEqual([id]);
    }
    await endMessages(id);
    await runRetention();
    expect(await idsLeft()).toEqual([]);
  });

  test("are deleted once if two workers run at once, one batch at a time", async () => {
    await addMany(3 * BATCH);
    const lock = await blockBatches();
    const first = runRetention();
    await waitForBlocked(1);
    await runRetention();
    expect(await countForms()).toBe(3 * BATCH);
    await lock.rollback();
    await first;
    expect(await countForms()).toBe(0);
    expect(await countDeleted()).toBe(3 * BATCH);
    expect(await deletedEntries()).toHaveLength(3 * BATCH);
  });

  test("are deleted in whole batches if the worker is stopped", async () => {
    const batches = await recordBatches();
    await addMany(4 * BATCH);
    const lock = await blockBatches();
    const worker = spawnCli(["worker"], { env: commandEnv(services, { FORM_RETENTION_DAYS: "100" }) });
    await waitForBlocked(1);
    const stopped = worker.stop("SIGTERM");
    await lock.rollback();
    expect((await stopped).code).toBe(0);
    const deleted = await batches();
    expect(deleted.length).toBeGreaterThanOrEqual(1);
    for (const size of deleted) expect(size).toBe(BATCH);
    expect(await countForms()).toBe(4 * BATCH - BATCH * deleted.length);
    expect(await deletedEntries()).toHaveLength(BATCH * deleted.length);
    await runRetention();
    expect(await countForms()).toBe(0);
  });

  test("make room for new ones: the same body and key create another form", async () => {
    const body = { ...owner.body, checkInDate: "2020-01-01T14:00:00Z", checkOutDate: "2020-01-08T10:00:00Z" };
    const first = await owner.create(body, "key");
    await runRetention();
    for (const key of ["key", undefined]) {
      const again = await owner.create(body, key);
      expect(again.replayed).toBe(key === undefined);
      expect(again.form.id).not.toBe(first.form.id);
    }
    expect(await countForms()).toBe(1);
  });

  test("are gone for requests that wait for their batch: an update is of an unknown form, and a replay creates another", async () => {
    const body = { ...owner.body, checkInDate: "2020-01-01T14:00:00Z", checkOutDate: "2020-01-08T10:00:00Z" };
    const { form } = await owner.create(body);
    const old = await addOld();
    // Deletes the creates of both forms in this order, and then waits.
    const lock = await holdLock("SELECT FROM emails WHERE form_id = $1 FOR UPDATE", [old.id]);
    const running = runRetention();
    await waitForBlocked(1);
    const update = catchErrorCode(owner.forms.update({ id: old.id, ...owner.body }));
    // Has found the form, and waits to bind its key to it.
    const replay = owner.create(body, "new key");
    await waitForBlocked(3);
    // Others do not wait.
    expect((await owner.create({ ...body, numberOfGuests: 9 })).replayed).toBe(false);
    expect((await owner.forms.list({})).items).toHaveLength(3);
    await lock.commit();
    await running;
    expect(await update).toBe("RESOURCE_NOT_FOUND");
    const replayed = await replay;
    expect(replayed.replayed).toBe(false);
    expect(replayed.form.id).not.toBe(form.id);
  });
});
