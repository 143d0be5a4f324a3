import { audit } from "../audit.js";
import type { Context } from "../context.js";
import type { Transaction } from "../db.js";
import { eraseGuestEmails } from "../forms/queries.js";
import { cancelNotifications } from "../notifications/cancel.js";
import { type Keys, open } from "../secrets.js";
import type { Erased } from "./schema.js";

/** Forms per transaction and per read. */
export const BATCH = 200;

/**
 * Erases the addresses of these forms, which the transaction has locked, and cancels their unsent notifications. Returns the
 * number of cancelled notifications. Keeps the fingerprints, so that the create can still be replayed.
 */
export async function eraseAddresses(
  tx: Transaction,
  by: Pick<Context, "principal" | "correlationId">,
  ids: string[],
  reason: "retention" | "request",
): Promise<number> {
  if (ids.length === 0) return 0;
  await eraseGuestEmails(tx, ids);
  await audit(tx, by, "form.email_erased", ids, { reason });
  return cancelNotifications(tx, ids);
}

// `ORDER BY id`, the text in the select list, would read and sort all addresses for each batch.
const STORED = `
  SELECT f.id::text, f.guest_email FROM forms f
  WHERE f.guest_email IS NOT NULL AND f.id > $1::uuid
  ORDER BY f.id LIMIT ${BATCH}`;

interface Sealed {
  id: string;
  guest_email: Uint8Array;
}

/**
 * Erases an address from every form, on a guest's request. Ignores case in the whole address: case-sensitive mailboxes are
 * rare, and leaving an address behind is worse than erasing too much. Decrypts all stored addresses in batches, because
 * encrypted addresses cannot be searched.
 */
export async function erasePerson(context: Context, email: string): Promise<Erased> {
  const { db, keyring } = context.services;
  const wanted = email.toLowerCase();
  const erased: Erased = { forms: 0, notifications: 0, unreadable: 0 };
  let last = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const rows = await db.query<Sealed>("stored-addresses", STORED, [last]);
    const addresses = rows.map((row) => addressOf(row, keyring.email));
    const found = rows.filter((_, index) => addresses[index] === wanted).map(({ id }) => id);
    erased.unreadable += addresses.filter((address) => address === undefined).length;
    if (found.length > 0) {
      const done = await db.transaction((tx) => eraseIfUnchanged(tx, context, found, wanted));
      erased.forms += done.forms;
      erased.notifications += done.notifications;
    }
    if (rows.length < BATCH) return erased;
    last = rows.at(-1)?.id ?? last;
  }
}

// Checks again: an update may have changed the address since it was read.
async function eraseIfUnchanged(tx: Transaction, context: Context, ids: string[], wanted: string) {
  const rows = await tx.$queryRaw<Sealed[]>`
    SELECT f.id::text, f.guest_email FROM forms f WHERE f.id = ANY(${ids}::uuid[]) AND f.guest_email IS NOT NULL
    ORDER BY f.id FOR UPDATE`;
  const keys = context.services.keyring.email;
  const same = rows.filter((row) => addressOf(row, keys) === wanted).map(({ id }) => id);
  return { forms: same.length, notifications: await eraseAddresses(tx, context, same, "request") };
}

/** Decrypts and lower-cases the address; undefined if no secret can decrypt it. */
function addressOf({ id, guest_email }: Sealed, keys: Keys): string | undefined {
  try {
    return open(keys, guest_email, id).toLowerCase();
  } catch {
    return undefined;
  }
}
