import type { Call } from "../access/context.js";
import type { Db } from "../database/db.js";
import { inGroups } from "../values.js";
import { hashAddress, isMadeWith } from "./address-hash.js";
import { eraseWhere } from "./erase.js";
import type { addressInput, Erasure, listErasuresInput, Reapplied, reapplyInput } from "./schema.js";

const READ = `
  SELECT erased_at AS "erasedAt", address_hash AS "addressHash" FROM erasures
  WHERE erased_at >= $1::timestamptz ORDER BY erased_at, address_hash`;

/** The erasures on request, oldest first; with `since`, not older than that. */
export const listErasures = ({ ctx, input }: Call<typeof listErasuresInput>): Promise<Erasure[]> =>
  ctx.services.db.query("erasures", READ, [input.since?.toISOString() ?? "-infinity"]);

const STORE = `
  INSERT INTO erasures (address_hash, erased_at)
  SELECT * FROM unnest($1::text[], $2::timestamptz[])
  ON CONFLICT (address_hash) DO UPDATE SET erased_at = greatest(erasures.erased_at, excluded.erased_at)
  RETURNING erased_at AS "erasedAt", address_hash AS "addressHash"`;

/** Records per statement. */
const BATCH = 1_000;

/** Stores erasures of distinct addresses. Keeps a later time that is already stored. */
async function storeErasures(db: Db, given: readonly Erasure[]): Promise<Erasure[]> {
  const stored: Erasure[] = [];
  for (const batch of inGroups(given, BATCH)) {
    const hashes = batch.map(({ addressHash }) => addressHash);
    const instants = batch.map(({ erasedAt }) => erasedAt);
    stored.push(...(await db.query<Erasure>("store-erasures", STORE, [hashes, instants])));
  }
  return stored;
}

/**
 * Erases an address from every form, on a guest's request, and stores the erasure. Ignores case in the whole address:
 * case-sensitive mailboxes are rare, and leaving an address behind is worse than erasing too much.
 */
export async function erasePerson({ ctx, input }: Call<typeof addressInput>) {
  const { db, keyring } = ctx.services;
  const wanted = input.email.toLowerCase();
  const { startedAt, ...counts } = await eraseWhere(ctx, "request", (address) => address === wanted);
  // Store the record last, so a backup that has it also has the whole erasure. Store it even if no form had the address: a
  // form in an older backup may have it.
  const addressHash = hashAddress(keyring.erasure[0], wanted);
  const [record] = await storeErasures(db, [{ addressHash, erasedAt: startedAt }]);
  if (!record) throw new Error("The erasure was not stored.");
  return { ...counts, ...record };
}

export async function reapplyErasures({ ctx, input }: Call<typeof reapplyInput>): Promise<Reapplied> {
  const { db, keyring } = ctx.services;
  const given = latestByHash(input.records);
  const known = latestByHash(await listErasures({ ctx, input: {} }));
  const missing = [...given].filter(([hash, erasedMs]) => (known.get(hash) ?? 0) < erasedMs);
  const keys = keyring.erasure.filter((key) => missing.some(([hash]) => isMadeWith(key, hash)));
  const due = new Map(missing.filter(([hash]) => keys.some((key) => isMadeWith(key, hash))));
  const { startedAt: _, ...counts } = await eraseWhere(ctx, "restore", (address, createdMs) =>
    keys.some((key) => createdMs <= (due.get(hashAddress(key, address)) ?? 0)),
  );
  // Stored last: a run that failed, or could not read all addresses, is then repeated in full.
  if (counts.unreadable === 0) {
    const applied = [...due].map(([addressHash, ms]) => ({ addressHash, erasedAt: new Date(ms).toISOString() }));
    await storeErasures(db, applied);
  }
  return {
    ...counts,
    applied: due.size,
    known: given.size - missing.length,
    unknownSecret: missing.length - due.size,
  };
}

/** Milliseconds of the last erasure of each address. */
function latestByHash(records: readonly { addressHash: string; erasedAt: Date | string }[]): Map<string, number> {
  const latest = new Map<string, number>();
  for (const { addressHash, erasedAt } of records) {
    latest.set(addressHash, Math.max(latest.get(addressHash) ?? 0, new Date(erasedAt).getTime()));
  }
  return latest;
}
