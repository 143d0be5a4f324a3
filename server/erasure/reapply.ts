import type { Call } from "../access/context.js";
import { hashAddress, isMadeWith } from "./address-hash.js";
import { eraseWhere } from "./erase.js";
import { listErasures, storeErasures } from "./erasures.js";
import type { Reapplied, reapplyInput } from "./schema.js";

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
