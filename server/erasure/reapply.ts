import type { Context } from "../access/context.js";
import { hashAddress, isMadeWith } from "./address-hash.js";
import { eraseWhere } from "./erase.js";
import { listErasures, storeErasures } from "./erasures.js";
import type { Erasure, ParsedRecord, Reapplied } from "./schema.js";

export async function reapplyErasures(context: Context, records: ParsedRecord[]): Promise<Reapplied> {
  const given = latestByHash(records);
  const known = latestByHash(await listErasures(context));
  const missing = [...given].filter(([hash, erasedMs]) => (known.get(hash) ?? 0) < erasedMs);
  const keys = context.services.keyring.erasure.filter((key) => missing.some(([hash]) => isMadeWith(key, hash)));
  const due = new Map(missing.filter(([hash]) => keys.some((key) => isMadeWith(key, hash))));
  const { startedAt: _, ...counts } = await eraseWhere(context, "restore", (address, createdMs) =>
    keys.some((key) => createdMs <= (due.get(hashAddress(key, address)) ?? 0)),
  );
  // Stored last: a run that failed, or could not read all addresses, is then repeated in full.
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
function latestByHash(records: readonly (ParsedRecord | Erasure)[]): Map<string, number> {
  const latest = new Map<string, number>();
  for (const { addressHash, erasedAt } of records) {
    latest.set(addressHash, Math.max(latest.get(addressHash) ?? 0, new Date(erasedAt).getTime()));
  }
  return latest;
}
