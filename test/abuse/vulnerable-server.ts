import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import pg from "pg";
import { afterAll } from "vitest";

/** Reads the value from each part of a request that can carry one. */
const READERS: Record<string, (req: IncomingMessage, url: URL) => Promise<unknown> | unknown> = {
  "/query": (_req, url) => url.searchParams.get("id"),
  "/path/": (_req, url) => decodeURIComponent(url.pathname.slice("/path/".length)),
  "/header": ({ headers }) => headers["x-api-key"],
  "/body": async (req) => {
    let text = "";
    for await (const chunk of req) text += chunk;
    return JSON.parse(text).id;
  },
};

/** Starts a server that is vulnerable on purpose, to prove that sqlmap can find a SQL injection. */
export async function startVulnerableServer(databaseUrl: string): Promise<string> {
  const pool = new pg.Pool({ connectionString: databaseUrl });
  await pool.query("CREATE TABLE secrets (id text, title text)");
  await pool.query("INSERT INTO secrets VALUES ('one', 'Loft'), ('two', 'Barn')");
  const server = createServer(async (req, res) => {
    const url = new URL(req.url ?? "/", "http://localhost");
    const read = Object.entries(READERS).find(([path]) => url.pathname.startsWith(path))?.[1];
    try {
      const id = await read?.(req, url);
      const { rows } = await pool.query(`SELECT title FROM secrets WHERE id = '${id}'`);
      res.statusCode = rows.length > 0 ? 200 : 404;
      res.end(JSON.stringify(rows));
    } catch {
      res.statusCode = 400;
      res.end('{"error":"bad request"}');
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await pool.end();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
