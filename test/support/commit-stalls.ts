import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect } from "vitest";
import { durationsOf, type Span } from "./constant-rate-load.js";

const STALL_MS = 50;
const MAX_STALLED_SHARE = 0.2;

/**
 * Commits again and again what touches no table, so that it waits for nothing but Postgres' log, its standby, and this
 * process. `stop` returns which requests were not under way while such a commit took more than 50 ms: a disk or machine
 * that pauses delays everybody, whatever the service does. Fails if that was more than a fifth of the time.
 */
export async function watchCommits(databaseUrl: string) {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const began = performance.now();
  const stalls: Span[] = [];
  let isStopped = false;
  const running = (async () => {
    while (!isStopped) {
      const from = performance.now();
      await client.query("SELECT pg_logical_emit_message(true, 'test', '')");
      const to = performance.now();
      if (to - from > STALL_MS) stalls.push({ from, to });
      await sleep(10);
    }
  })();
  return {
    async stop(): Promise<(request: Span) => boolean> {
      isStopped = true;
      await running;
      await client.end();
      const stalledMs = durationsOf(stalls).reduce((total, ms) => total + ms, 0);
      if (stalledMs > 0) console.info(`${stalls.length} commits of no table took ${stalledMs.toFixed()} ms`);
      const share = stalledMs / (performance.now() - began);
      expect(share, "share of the time in which Postgres stalled").toBeLessThan(MAX_STALLED_SHARE);
      return (request) => !stalls.some(({ from, to }) => request.from < to && from < request.to);
    },
  };
}
