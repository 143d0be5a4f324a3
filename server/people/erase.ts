import { audit } from "../audit.js";
import type { Context } from "../context.js";
import { queryIn, type Transaction } from "../db.js";
import { eraseGuestEmails } from "../forms/queries.js";
import { cancelNotifications } from "../notifications/cancel.js";
import { type Keys, open } from "../secrets.js";
import { hashAddress } from "./address-hash.js";
import { storeErasures } from "./erasures.js";
import type { Erased, ErasureCounts } from "./schema.js";

/** Forms per transaction and per read. */
export const BATCH = 200;

/** Why an address is erased: "restore" repeats an erasure after the database was restored. */
type Reason = "retention" | "request" | "restore";

/**
 * Erases the addresses of these forms, which the transaction has locked, and cancels their unsent notifications. Returns the
 * number of cancelled notifications. Keeps the fingerprints, so that the create can still be replayed.
 */
export async function eraseAddresses(
  tx: Transaction,
  by: Pick<Context, "principal" | "correlationId">,
  ids: string[],
  reason: Reason,
): Promise<number> {
  if (ids.length === 0) return 0;
  await eraseGuestEmails(tx, ids);
  await audit(tx, by, "form.email_erased", ids, { reason });
  return cancelNotifications(tx, ids);
}

const CREATED_MS = `(extract(epoch FROM f.created_at) * 1000)::float8 AS "createdMs"`;

// `ORDER BY id`, the text in the select list, would read and sort all addresses for each batch.
const STORED = `
  SELECT f.id::text, f.guest_email, ${CREATED_MS} FROM forms f
  WHERE f.guest_email IS NOT NULL AND f.id > $1::uuid
  ORDER BY f.id LIMIT ${BATCH}`;

const LOCK_STORED = `
  SELECT f.id::text, f.guest_email, ${CREATED_MS} FROM forms f
  WHERE f.id = ANY($1::uuid[]) AND f.guest_email IS NOT NULL
  ORDER BY f.id FOR UPDATE`;

interface Sealed {
  id: string;
  guest_email: Uint8Array;
  createdMs: number;
}

/** Whether to erase this address, which is in lower case, from a form created at this time. */
type IsErased = (address: string, createdMs: number) => boolean;

/**
 * Erases an address from every form, on a guest's request, and stores the erasure. Ignores case in the whole address:
 * case-sensitive mailboxes are rare, and leaving an address behind is worse than erasing too much.
 */
export async function erasePerson(context: Context, email: string): Promise<Erased> {
  const { db, keyring } = context.services;
  const wanted = email.toLowerCase();
  const counts = await eraseWhere(context, "request", (address) => address === wanted);
  // Last: a backup that has the record then also has the whole erasure. Also if no form had the address: a form in an older
  // backup may have it.
  const [record] = await storeErasures(db, [{ addressHash: hashAddress(keyring.erasure[0], wanted) }]);
  if (!record) throw new Error("The erasure was not stored.");
  return { ...counts, ...record };
}

/** Erases addresses. Decrypts all stored ones in batches, because encrypted addresses cannot be searched. */
export async function eraseWhere(
  context: Context,
  reason: Reason,
  isErased: IsErased,
): Promise<ErasureCounts> {
  const { db, keyring } = context.services;
  const erased: ErasureCounts = { forms: 0, notifications: 0, unreadable: 0 };
  let last = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const rows = await db.query<Sealed>("stored-addresses", STORED, [last]);
    const addresses = rows.map((row) => addressOf(row, keyring.email));
    const found = rows.filter((row, index) => matches(row, addresses[index], isErased)).map(({ id }) => id);
    erased.unreadable += addresses.filter((address) => address === undefined).length;
    if (found.length > 0) {
      const done = await db.transaction((tx) => eraseIfUnchanged(tx, context, reason, found, isErased));
      erased.forms += done.forms;
      erased.notifications += done.notifications;
    }
    if (rows.length < BATCH) return erased;
    last = rows.at(-1)?.id ?? last;
  }
}

// Checks again: an update may have changed the address since it was read.
async function eraseIfUnchanged(
  tx: Transaction,
  context: Context,
  reason: Reason,
  ids: string[],
  isErased: IsErased,
) {
  const rows = await queryIn<Sealed>(tx, "lock-stored-addresses", LOCK_STORED, [ids]);
  const keys = context.services.keyring.email;
  const same = rows.filter((row) => matches(row, addressOf(row, keys), isErased)).map(({ id }) => id);
  return { forms: same.length, notifications: await eraseAddresses(tx, context, same, reason) };
}

const matches = ({ createdMs }: Sealed, address: string | undefined, isErased: IsErased) =>
  address !== undefined && isErased(address, createdMs);

/** Decrypts and lower-cases the address; undefined if no secret can decrypt it. */
function addressOf({ id, guest_email }: Sealed, keys: Keys): string | undefined {
  try {
    return open(keys, guest_email, id).toLowerCase();
  } catch {
    return undefined;
  }
}
