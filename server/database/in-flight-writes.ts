import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "./db.js";
import { Unavailable } from "./failures.js";

// A transaction that inserts, updates or locks a row holds one of these locks on the table until it has ended. It takes the lock on
// the table before its statement reads anything, and so before it waits for a row.
const IN_FLIGHT = `
  SELECT virtualtransaction AS id FROM pg_locks
  WHERE relation = $1::text::regclass AND mode IN ('RowShareLock', 'RowExclusiveLock') AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

const MIN_PAUSE_MS = 5;
const MAX_PAUSE_MS = 200;
const MAX_WAIT_MS = 60_000;

/**
 * Waits until all transactions have ended that write or lock rows of this table now, so that later statements see what they wrote.
 * Later transactions are not waited for. Throws Unavailable after MAX_WAIT_MS.
 */
export async function waitForInFlightWrites(sql: Sql, table: "forms" | "listings"): Promise<void> {
  const read = async () =>
    (await sql.query<{ id: string }>("in-flight-writes", IN_FLIGHT, [table])).map(({ id }) => id);
  const since = performance.now();
  let awaited = await read();
  for (let pauseMs = MIN_PAUSE_MS; awaited.length > 0; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    if (performance.now() - since > MAX_WAIT_MS)
      throw new Unavailable("Transactions that write forms take too long. Run this again.");
    await sleep(pauseMs);
    const inFlight = new Set(await read());
    awaited = awaited.filter((id) => inFlight.has(id));
  }
}
