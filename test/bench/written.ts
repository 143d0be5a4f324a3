import type pg from "pg";

/** Where creates leave rows, as far as this version of the schema has the table. */
const TABLES = [
  "forms",
  "scoped_forms",
  "creations",
  "idempotency_keys",
  "audit_entries",
  "notifications",
  "graphile_worker._private_jobs",
];

/** Takes away what creates have written since, so that every server's turn begins with the same database. */
export async function markWrites(client: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ now: string; entry: string }>(
    "SELECT clock_timestamp()::text AS now, (SELECT coalesce(max(id), 0) FROM audit_entries)::text AS entry",
  );
  const [mark] = rows;
  return async () => {
    await client.query("DELETE FROM forms WHERE created_at >= $1::timestamptz", [mark?.now]);
    await client.query("DELETE FROM audit_entries WHERE id > $1::bigint", [mark?.entry]);
    await client.query("DELETE FROM graphile_worker._private_jobs");
    const { rows: tables } = await client.query<{ name: string }>(
      "SELECT name FROM unnest($1::text[]) name WHERE to_regclass(name) IS NOT NULL",
      [TABLES],
    );
    for (const { name } of tables) await client.query(`VACUUM ${name}`);
    await client.query("CHECKPOINT");
  };
}
