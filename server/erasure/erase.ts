import { randomUUID } from "node:crypto";
import type { Context, Log, Services } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import type { Db, Sql } from "../database/db.js";
import { waitForInFlightWrites } from "../database/in-flight-writes.js";
import { tryOpen } from "../encryption.js";
import { unavailable } from "../errors.js";
import { readStoredAddresses, SEALED, type Sealed } from "../forms/find-by-address.js";
import { eraseGuestEmails } from "../forms/queries.js";
import { cancelInvitations } from "../outbox/enqueue.js";
import { eraseAnswers } from "../outbox/events.js";
import { inGroups } from "../values.js";
import type { ErasureCounts } from "./schema.js";

/** Forms per transaction. */
const BATCH = 200;

/** Checks of what has changed since the check before. Each ends soon, so more find only what somebody keeps writing. */
const MAX_CHECKS = 10;

/** Why an address is erased: "restore" repeats an erasure after the database was restored. */
type Reason = "retention" | "request" | "restore";

/**
 * Erases the addresses of these forms, which the transaction has locked, cancels their unsent emails, and erases what receivers of
 * webhooks answered about them. Returns the number of cancelled emails. Keeps the fingerprints, so that the create can still be replayed.
 */
async function eraseAddresses(
  tx: Sql,
  by: Pick<Context, "principal" | "correlationId">,
  ids: string[],
  reason: Reason,
): Promise<number> {
  if (ids.length === 0) return 0;
  await eraseGuestEmails(tx, ids);
  await audit(tx, by, "form.email_erased", ids, { reason });
  await eraseAnswers(tx, ids);
  return cancelInvitations(tx, ids);
}

// `xmin` is the transaction that last changed the row. A very old one may count as recent, and is then only checked again.
const CHANGED = `
  SELECT ${SEALED} FROM forms f
  WHERE f.guest_email IS NOT NULL AND age(f.xmin) <= age($1::xid8::xid)`;

const LOCK_STORED = `
  SELECT ${SEALED} FROM forms f
  WHERE f.id = ANY($1::uuid[]) AND f.guest_email IS NOT NULL
  ORDER BY f.id FOR UPDATE`;

/** All transactions before `horizon` have ended. `at` is rounded like the creation of forms. */
const START = `
  SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon, clock_timestamp()::timestamptz(3) AS at`;

const readStart = async (db: Db) => {
  const [start] = await db.query<{ horizon: string; at: string }>("erasure-start", START, []);
  if (!start) throw new Error("The database has no clock.");
  return start;
};

const STILL_WRITTEN =
  "The erasure is not complete: forms with addresses to erase are still being created or changed. Run it again.";

/** Whether to erase this address, which is in lower case, from a form created at this time. */
type IsErased = (address: string, createdMs: number) => boolean;

/**
 * Erases addresses from all forms, also from those created or changed while it runs. Decrypts all stored addresses in
 * batches, because encrypted ones cannot be searched. Then waits for writes in flight, checks what has changed since, and
 * repeats this until it finds nothing to erase. Throws if somebody keeps writing what it erases.
 */
export async function eraseWhere(
  context: Context,
  reason: Reason,
  isErased: IsErased,
): Promise<ErasureCounts & { startedAt: string }> {
  const { db, keyring } = context.services;
  const erased = { forms: 0, emails: 0 };
  const unreadable = new Set<string>();

  const isToErase = ({ id, guest_email, createdMs }: Sealed): boolean => {
    const address = tryOpen(keyring.email, guest_email, id)?.text.toLowerCase();
    if (address === undefined) unreadable.add(id);
    else unreadable.delete(id);
    return address !== undefined && isErased(address, createdMs);
  };

  /** Erases addresses from at most one batch. Returns whether there was one to erase. */
  const eraseFrom = async (rows: Sealed[]): Promise<boolean> => {
    const found = rows.filter(isToErase).map(({ id }) => id);
    if (found.length === 0) return false;
    const done = await db.sqlTransaction(async (tx) => {
      // Checks again: an update may have changed the address since it was read.
      const locked = await tx.query<Sealed>("lock-stored-addresses", LOCK_STORED, [found]);
      const ids = locked.filter(isToErase).map(({ id }) => id);
      return { forms: ids.length, emails: await eraseAddresses(tx, context, ids, reason) };
    });
    erased.forms += done.forms;
    erased.emails += done.emails;
    return true;
  };

  const start = await readStart(db);
  for await (const rows of readStoredAddresses(db)) await eraseFrom(rows);
  let { horizon } = start;
  for (let check = 1, hasFound = true; hasFound; check++) {
    if (check > MAX_CHECKS) throw unavailable({ message: STILL_WRITTEN });
    await waitForInFlightWrites(db, "forms");
    const since = horizon;
    ({ horizon } = await readStart(db));
    const changed = await db.longTransaction((tx) => tx.query<Sealed>("changed-addresses", CHANGED, [since]));
    hasFound = false;
    for (const group of inGroups(changed, BATCH)) if (await eraseFrom(group)) hasFound = true;
  }
  return { ...erased, unreadable: unreadable.size, startedAt: start.at };
}

const LOCK_DUE = `
  SELECT id::text FROM forms
  WHERE guest_email IS NOT NULL AND check_out_date < now() - make_interval(days => $1::int)
  ORDER BY check_out_date LIMIT ${BATCH} FOR UPDATE SKIP LOCKED`;

/**
 * Erases the addresses of guests who checked out RETENTION_DAYS ago. Each batch is a separate transaction, so that no form is
 * locked for long. Locked forms are left to the next run.
 */
export async function eraseDueEmails(
  { db, settings }: Services,
  log: Pick<Log, "info">,
  signal?: AbortSignal,
): Promise<void> {
  const system = { principal: null, correlationId: randomUUID() };
  let forms = 0;
  for (let full = true; full && !signal?.aborted; ) {
    const count = await db.sqlTransaction(async (tx) => {
      const due = await tx.query<{ id: string }>("lock-due-addresses", LOCK_DUE, [settings.RETENTION_DAYS]);
      const ids = due.map(({ id }) => id);
      await eraseAddresses(tx, system, ids, "retention");
      return ids.length;
    });
    forms += count;
    full = count === BATCH;
  }
  if (forms > 0) log.info({ forms, correlationId: system.correlationId }, "email addresses were erased");
}
