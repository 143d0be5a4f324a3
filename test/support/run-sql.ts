import pg from "pg";

/** Runs SQL on a connection of its own, without the service's session settings. */
export async function runSql<Row extends object>(url: string, text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 30_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    // Only without values may the text have several statements.
    return (await client.query<Row>(text, values.length > 0 ? values : undefined)).rows;
  } finally {
    await client.end();
  }
}
