/** Oldest major version covered by the tests. The migrations use SQL-standard function bodies, which need 14. */
export const MIN_POSTGRES = 15;

const VERSION =
  "SELECT current_setting('server_version') AS text, current_setting('server_version_num')::int AS number";

/** Throws if the server is older than MIN_POSTGRES. */
export async function assertSupportedServer(database: {
  query(text: string): Promise<{ rows: unknown[] }>;
}): Promise<void> {
  const [version] = (await database.query(VERSION)).rows as { text: string; number: number }[];
  if (!version || version.number >= MIN_POSTGRES * 10_000) return;
  throw new Error(`PostgreSQL ${version.text} is too old: guest-forms needs ${MIN_POSTGRES} or newer.`);
}
