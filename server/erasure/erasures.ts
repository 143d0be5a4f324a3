import type { Call } from "../access/context.js";
import type { Db } from "../database/db.js";
import type { Erasure, listErasuresInput } from "./schema.js";

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
export async function storeErasures(db: Db, given: readonly Erasure[]): Promise<Erasure[]> {
  const stored: Erasure[] = [];
  for (let start = 0; start < given.length; start += BATCH) {
    const batch = given.slice(start, start + BATCH);
    const hashes = batch.map(({ addressHash }) => addressHash);
    const instants = batch.map(({ erasedAt }) => erasedAt);
    stored.push(...(await db.query<Erasure>("store-erasures", STORE, [hashes, instants])));
  }
  return stored;
}
