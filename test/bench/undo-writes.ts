import type pg from "pg";

/** Where creates leave rows. */
const TABLES = ["forms", "scoped_forms", "creations", "idempotency_keys", "audit_entries", "notifications"];

/** Takes away what creates have written since, so that every server's turn begins with the same database. */
export async function markWrites(client: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ now: string; entry: string }>(
    "SELECT clock_timestamp()::text AS now, (SELECT coalesce(max(id), 0) FROM audit_entries)::text AS entry",
  );
  const [mark] = rows;
  return async () => {
    await client.query("DELETE FROM forms WHERE created_at >= $1::timestamptz", [mark?.now]);
    await client.query("DELETE FROM audit_entries WHERE id > $1::bigint", [mark?.entry]);
    for (const table of TABLES) await client.query(`VACUUM ${table}`);
    await client.query("CHECKPOINT");
  };
}
