// Exits with 0 if Postgres at the given URL is reachable and allows creating databases.
import pg from "pg";

const client = new pg.Client({ connectionString: process.argv[2], connectionTimeoutMillis: 2000 });
try {
  await client.connect();
  const { rows } = await client.query(
    "SELECT rolcreatedb OR rolsuper AS able FROM pg_roles WHERE rolname = current_user",
  );
  process.exitCode = rows[0]?.able ? 0 : 1;
} catch {
  process.exitCode = 1;
} finally {
  await client.end().catch(() => {});
}
