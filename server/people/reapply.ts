import type { Context } from "../context.js";
import { parseInstant } from "../values.js";
import { hashAddress, isMadeWith } from "./address-hash.js";
import { eraseWhere } from "./erase.js";
import { listErasures, storeErasures } from "./erasures.js";
import type { ErasureRecord, Reapplied } from "./schema.js";

/**
 * Repeats erasures in a database restored from a backup that is older than them. Skips those that the database knows.
 * Keeps addresses of forms created after the erasure, because they were given again.
 */
export async function reapplyErasures(context: Context, records: ErasureRecord[]): Promise<Reapplied> {
  const given = latestByHash(records);
  const known = latestByHash(await listErasures(context));
  const missing = [...given].filter(([hash, erasedMs]) => (known.get(hash) ?? 0) < erasedMs);
  const keys = context.services.keyring.erasure.filter((key) =>
    missing.some(([hash]) => isMadeWith(key, hash)),
  );
  const due = new Map(missing.filter(([hash]) => keys.some((key) => isMadeWith(key, hash))));
  const { startedAt: _, ...counts } = await eraseWhere(context, "restore", (address, createdMs) =>
    keys.some((key) => createdMs <= (due.get(hashAddress(key, address)) ?? 0)),
  );
  // Last, so that a run that failed is repeated completely; so is one that could not read all addresses.
  if (counts.unreadable === 0) {
    await storeErasures(
      context.services.db,
      [...due].map(([addressHash, erasedMs]) => ({
        addressHash,
        erasedAt: new Date(erasedMs).toISOString(),
      })),
    );
  }
  return {
    ...counts,
    applied: due.size,
    known: given.size - missing.length,
    unknownSecret: missing.length - due.size,
  };
}

/** Milliseconds of the last erasure of each address. */
function latestByHash(records: readonly ErasureRecord[]): Map<string, number> {
  const latest = new Map<string, number>();
  for (const { addressHash, erasedAt } of records) {
    latest.set(addressHash, Math.max(latest.get(addressHash) ?? 0, parseInstant(erasedAt) ?? 0));
  }
  return latest;
}
