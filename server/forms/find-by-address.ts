import type { Context } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import { tryOpen } from "../encryption.js";
import { NIL_UUID } from "../values.js";

/** Select list of `Sealed` over `forms f`. */
export const SEALED = `f.id::text, f.guest_email, (extract(epoch FROM f.created_at) * 1000)::float8 AS "createdMs"`;

/** The encrypted address of a form. */
export interface Sealed {
  id: string;
  guest_email: Uint8Array;
  createdMs: number;
}

/** Forms per read. */
const BATCH = 200;

// `ORDER BY id`, the text in the select list, would read and sort all addresses for each batch.
const STORED = `
  SELECT ${SEALED} FROM forms f
  WHERE f.guest_email IS NOT NULL AND f.id > $1::uuid
  ORDER BY f.id LIMIT ${BATCH}`;

/** All forms that have an address, in batches. */
export async function* readStoredAddresses(db: Sql): AsyncGenerator<Sealed[]> {
  let last = NIL_UUID;
  for (let isFull = true; isFull; ) {
    const rows = await db.query<Sealed>("stored-addresses", STORED, [last]);
    yield rows;
    isFull = rows.length === BATCH;
    last = rows.at(-1)?.id ?? last;
  }
}

type Caller = Pick<Context, "services" | "signal">;

/** The last look-up of this process. */
let lookUp: Promise<unknown> = Promise.resolve();

/**
 * The ids of the forms that have a guest's address, ignoring case, and how many stored addresses no secret can decrypt. Decrypts all
 * stored addresses in batches, because encrypted ones cannot be searched; one look-up after the other.
 */
export function findFormsByAddress(ctx: Caller, email: string) {
  const found = lookUp.then(() => compareAll(ctx, email));
  lookUp = found.catch(() => {});
  return found;
}

async function compareAll({ services, signal }: Caller, email: string) {
  const { db, keyring } = services;
  const wanted = email.toLowerCase();
  const ids: string[] = [];
  let unreadable = 0;
  for await (const rows of readStoredAddresses(db)) {
    signal.throwIfAborted();
    const addresses = rows.map(({ id, guest_email }) => tryOpen(keyring.email, guest_email, id)?.text.toLowerCase());
    unreadable += addresses.filter((address) => address === undefined).length;
    ids.push(...rows.filter((_, index) => addresses[index] === wanted).map(({ id }) => id));
  }
  return { ids, unreadable };
}

/** Audits a look-up of a guest's address, with each form that is shown, or with none. */
export const auditLookUp = (sql: Sql, ctx: Context, ids: readonly string[]) =>
  audit(sql, ctx, "person.looked_up", ids.length > 0 ? ids : NIL_UUID);
