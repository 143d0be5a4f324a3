import pg from "pg";

const SWEEP_MS = 250;

/** What the last sweep saw of a connection that is in use. */
interface Progress {
  bytesRead: number;
  since: number;
}

/**
 * Closes connections that are checked out of the pool and have received nothing for `limitMs`: the server is frozen or
 * the network drops everything, so Postgres's own timeouts never arrive. One sweep per process instead of pg's
 * `query_timeout`, whose timer per query keeps each answer in memory until a major garbage collection.
 */
export function closeFrozenConnections(pool: pg.Pool, limitMs: number): { stop(): void } {
  const inUse = new Map<pg.Client, Progress>();
  pool.on("acquire", (client) => {
    if (client instanceof pg.Client) {
      inUse.set(client, { bytesRead: bytesReadBy(client), since: performance.now() });
    }
  });
  pool.on("release", (_error, client) => {
    if (client instanceof pg.Client) inUse.delete(client);
  });
  let last = performance.now();
  const sweep = setInterval(() => {
    const now = performance.now();
    // This process was suspended or busy: answers may have arrived that it has not read yet.
    const isLate = now - last > 2 * SWEEP_MS;
    last = now;
    for (const [client, seen] of inUse) {
      const bytesRead = bytesReadBy(client);
      if (isLate || bytesRead !== seen.bytesRead) inUse.set(client, { bytesRead, since: now });
      // The socket, because ending the client would wait for its pending statements first.
      else if (now - seen.since > limitMs) client.connection.stream.destroy();
    }
  }, SWEEP_MS);
  sweep.unref();
  return { stop: () => clearInterval(sweep) };
}

const bytesReadBy = ({ connection }: pg.Client): number =>
  "bytesRead" in connection.stream ? Number(connection.stream.bytesRead) : 0;
