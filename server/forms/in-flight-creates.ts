import { setTimeout as sleep } from "node:timers/promises";
import { CREATING_FORM } from "../../prisma/advisory-locks.js";
import type { Sql } from "../db.js";
import { type StopSignal, Unavailable } from "../failures.js";

// A create gets its `created_at` at the insert but becomes visible at the commit. Between the two, a reader could see a later
// form and get a cursor that skips the create forever. So each create holds a shared advisory lock from before its insert
// until it ends, and a page that ends in recent forms waits until those locks are released, unless its own snapshot shows
// that none was held. Acquiring one never blocks, so creates do not wait for readers.

/** SQL that marks the transaction as a create in flight. It also takes the transaction's id. */
export const MARK_IN_FLIGHT = `pg_advisory_xact_lock_shared(${CREATING_FORM}), pg_current_xact_id()`;

/**
 * SQL for a SELECT: true only if no transaction with an id, and so no create, was in flight when its snapshot was taken. A
 * snapshot does not list ids from `xmax` on; `age` counts those that have been taken.
 */
export const NONE_IN_FLIGHT = `(
  SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
  FROM pg_current_snapshot() AS s)`;

const IN_FLIGHT = `
  SELECT virtualtransaction AS id FROM pg_locks
  WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint, objid::bigint) = (${CREATING_FORM})`;

/** Longer than the resolution of `created_at`: inserts after this pause get a later time than every row seen before it. */
const TICK_MS = 2;
const POLL_MS = 3;
const MAX_WAIT_MS = 2_000;

/**
 * Waits until every create that already has its `created_at` has committed or failed; later creates get a later time. Does
 * not rely on the database's clock, which may be set back. Throws Unavailable after MAX_WAIT_MS.
 */
export async function waitForInFlightCreates(sql: Sql, signal: StopSignal): Promise<void> {
  await sleep(TICK_MS);
  const inFlight = async () =>
    (await sql.query<{ id: string }>("in-flight-creates", IN_FLIGHT, [])).map(({ id }) => id);
  let awaited = await inFlight();
  for (const since = performance.now(); awaited.length > 0; ) {
    if (performance.now() - since > MAX_WAIT_MS) throw new Unavailable("creates in flight take too long");
    await sleep(POLL_MS);
    signal.throwIfAborted();
    const now = await inFlight();
    awaited = awaited.filter((id) => now.includes(id));
  }
}
