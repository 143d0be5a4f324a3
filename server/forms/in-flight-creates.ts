import { setTimeout as sleep } from "node:timers/promises";
import { CREATING_FORM } from "../../prisma/advisory-locks.js";
import type { Sql } from "../db.js";
import { type StopSignal, Unavailable } from "../failures.js";

// A create takes its time when it inserts and becomes visible when it commits. Between the two, a reader may already see
// a later form and receive a cursor behind it, which would skip the create for good. So each create holds a shared
// advisory lock from before it takes its time until it ends, and a page that ends in the newest forms waits for the
// holders of that lock. Nobody ever waits to acquire it: writers do not notice readers.

/** SQL that marks a transaction as creating a form. */
export const MARK_IN_FLIGHT = `pg_advisory_xact_lock_shared(${CREATING_FORM})`;

const IN_FLIGHT = `
  SELECT virtualtransaction AS id FROM pg_locks
  WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint, objid::bigint) = (${CREATING_FORM})`;

/** Longer than the resolution of `created_at`: whoever inserts after this pause takes a later time than any row seen before. */
const TICK_MS = 2;
const POLL_MS = 3;
const MAX_WAIT_MS = 2_000;

/**
 * Resolves once every create that has taken its time by now has committed or failed; creates that start later take a
 * later time. Measured without the database's clock, which may have been set back. Throws Unavailable if it takes too
 * long.
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
