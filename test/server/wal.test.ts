import { randomUUID } from "node:crypto";
import pg from "pg";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { uniqueStay } from "../support/stays.js";

// What requests write to the WAL, which replicas and archives receive too. Each index of a table adds a record to an insert, and
// to an update unless it is HOT.

/** Few enough that no table reaches the threshold of autovacuum. */
const REQUESTS = 7;

let core: Awaited<ReturnType<typeof openTestCore>>;
/** Ids of forms that no request has changed. */
let unchanged: string[];

beforeAll(async () => {
  core = await openTestCore();
  await core.sql("CREATE EXTENSION pg_walinspect");
  unchanged = [];
  for (let n = 0; n < 2 * REQUESTS; n++) unchanged.push((await core.owner.addForm({ guestEmail })).id);
});

/** Flushes the WAL, also on a server with `synchronous_commit = off`, and returns its position. */
const MARK = "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'test', '') AS lsn";

// Of this database only, because others on the server write too, and without page images, which depend on the last checkpoint.
// Vacuum and hint bits have no transaction id.
const WRITTEN = `
  SELECT count(*)::int AS records, sum(record_length - fpi_length)::int AS bytes
  FROM pg_get_wal_records_info($1::pg_lsn, $2::pg_lsn)
  WHERE xid <> '0' AND block_ref LIKE '%/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/%'
  GROUP BY xid ORDER BY bytes`;

/** Sends requests one after the other. Returns what each transaction has written, in the order of the bytes. */
async function recordWal(send: () => Promise<unknown>): Promise<{ records: number; bytes: number }[]> {
  const client = new pg.Client({ connectionString: core.services.db.url });
  await client.connect();
  onTestFinished(() => client.end());
  // A checkpoint keeps the WAL until the connection ends.
  await client.query("SELECT pg_create_physical_replication_slot($1, true, true)", [
    `test_${randomUUID().slice(0, 8)}`,
  ]);
  const mark = async (): Promise<string> => (await client.query(MARK)).rows[0].lsn;
  const start = await mark();
  for (let n = 0; n < REQUESTS; n++) await send();
  return (await client.query(WRITTEN, [start, await mark()])).rows;
}

const guestEmail = "guest@example.com";
const newStay = () => uniqueStay(core.owner.listingId, { guestEmail });
const takeForm = () => unchanged.pop() ?? "";

const WRITES = [
  {
    title: "a create writes at most 32 records and 3,600 bytes",
    most: { records: 32, bytes: 3_600 },
    send: () => core.owner.create(newStay(), randomUUID()),
  },
  {
    title: "a replay writes at most 2 records and 120 bytes",
    most: { records: 2, bytes: 120 },
    send: () => core.owner.create(core.owner.body, "key of all replays"),
  },
  {
    title: "an update writes at most 20 records and 1,950 bytes",
    most: { records: 20, bytes: 1_950 },
    send: () => core.owner.forms.update({ id: takeForm(), ...newStay() }),
  },
  {
    title: "a change of status writes at most 15 records and 1,450 bytes",
    most: { records: 15, bytes: 1_450 },
    send: () => core.owner.forms.setStatus({ id: takeForm(), status: "COMPLETED" }),
  },
];

test.each(WRITES)("$title of WAL", async ({ most, send }) => {
  const transactions = await recordWal(send);
  // Some are larger because a page is split, or smaller because a page image replaces the data.
  const median = transactions[Math.floor(REQUESTS / 2)];
  expect(median?.records).toBeLessThanOrEqual(most.records);
  expect(median?.bytes).toBeLessThanOrEqual(most.bytes);
});

test("reads write no WAL", async () => {
  const { forms, addForm } = core.owner;
  const { id } = await addForm();
  expect(await recordWal(() => Promise.all([forms.list({}), forms.get({ id })]))).toEqual([]);
});
