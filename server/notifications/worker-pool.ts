import pg from "pg";
import type { Services } from "../context.js";
import type { WorkerLog } from "./worker.js";

/** The longest any statement of a worker takes; where Postgres does not answer, it is given up. */
const STATEMENT_MS = 30_000;
const LIFETIME_SECONDS = 300;

export interface WorkerPool {
  pool: pg.Pool;
  /** Ends the pool, and resolves when all its connections have ended. */
  close(): Promise<void>;
}

/**
 * Connections of the worker's own: it listens on one for good, and its statements are not a request's. They stay
 * guarded to the last, for graphile-worker drops its own guards before its connections have ended, and an error then
 * would end the process.
 */
export function openWorkerPool({ db, settings }: Services, log: WorkerLog): WorkerPool {
  const pool = new pg.Pool({
    connectionString: db.directUrl,
    application_name: "guest-forms worker",
    max: settings.WORKER_CONCURRENCY + 2,
    connectionTimeoutMillis: settings.DATABASE_CONNECT_TIMEOUT_MS,
    query_timeout: STATEMENT_MS,
    keepAlive: true,
    // graphile-worker gives connections back that have not answered: where the network swallows all, they go at last.
    maxLifetimeSeconds: LIFETIME_SECONDS,
  });
  pool.on("error", (error) =>
    log.warn({ reason: error.message }, "a database connection of the worker was lost"),
  );
  const ends = new Set<Promise<void>>();
  pool.on("connect", (client) => {
    // The pool hears only of connections that are idle.
    client.on("error", () => {});
    const end = new Promise<void>((resolve) => client.once("end", resolve));
    ends.add(end);
    void end.then(() => ends.delete(end));
  });
  return {
    pool,
    async close() {
      await pool.end();
      // The pool's promise speaks of the connections it has told to end.
      await Promise.all(ends);
    },
  };
}
