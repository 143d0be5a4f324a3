import { setTimeout as sleep } from "node:timers/promises";
import type { Server } from "./servers.js";
import { type BenchRequest, withSerial } from "./wrk.js";

const CREATES_PER_SECOND = 100;

/** Sends one request. Rejects unless it succeeds. */
export async function sendOnce(
  { name, url }: Server,
  { target, key, body, idempotencyKey = "" }: BenchRequest,
): Promise<void> {
  const headers = {
    Authorization: `Bearer ${key}`,
    "Content-Type": "application/json",
    "Idempotency-Key": idempotencyKey,
  };
  const response = await fetch(url + target, { method: "POST", headers, body: body ?? null });
  const text = await response.text();
  if (!response.ok) throw new Error(`${name}: a create failed with ${response.status}: ${text}`);
}

/**
 * Sends CREATES_PER_SECOND at a steady rate, whether or not the server keeps up. Returns a function that stops it and waits
 * for the last response; it rejects if one failed.
 */
export function startCreates(
  server: Server,
  requests: readonly BenchRequest[],
  firstSerial: number,
): () => Promise<void> {
  const stopped = new AbortController();
  const pending: Promise<void>[] = [];
  const began = performance.now();
  const running = (async () => {
    while (!stopped.signal.aborted) {
      const due = ((performance.now() - began) / 1000) * CREATES_PER_SECOND;
      while (pending.length < due) {
        const request = requests[pending.length % requests.length] as BenchRequest;
        const create = sendOnce(server, withSerial(request, firstSerial + pending.length));
        // Reported when all have ended.
        create.catch(() => {});
        pending.push(create);
      }
      await sleep(1000 / CREATES_PER_SECOND);
    }
  })();
  return async () => {
    stopped.abort();
    await running;
    await Promise.all(pending);
  };
}
