import type pg from "pg";

/** Tables that creates write to. */
const TABLES = ["forms", "scoped_forms", "creations", "idempotency_keys", "audit_entries", "notifications"];

/** Returns a function that deletes all rows created after this call, so that every turn starts with the same database. */
export async function prepareUndo(client: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ now: string; audit_id: string }>(
    "SELECT clock_timestamp()::text AS now, (SELECT coalesce(max(id), 0) FROM audit_entries)::text AS audit_id",
  );
  const [start] = rows;
  return async () => {
    await client.query("DELETE FROM forms WHERE created_at >= $1::timestamptz", [start?.now]);
    await client.query("DELETE FROM audit_entries WHERE id > $1::bigint", [start?.audit_id]);
    for (const table of TABLES) await client.query(`VACUUM ${table}`);
    await client.query("CHECKPOINT");
  };
}
