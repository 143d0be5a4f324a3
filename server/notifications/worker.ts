import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Log, Services } from "../access/context.js";
import { recordActivity } from "../background/activity.js";
import { repeat } from "../background/repeat.js";
import { waitAtMost } from "../timeout.js";
import { deliver, makeSender, type Send } from "./deliver.js";
import { expireNotifications } from "./expiry.js";
import type { Mailer } from "./mailer.js";
import { createQueue } from "./queue.js";

const POLL_MS = 1_000;
const HEARTBEAT_MS = 5_000;
/** Only for what waits: whatever is sent is checked then. */
const EXPIRY_MS = 300_000;
/**
 * Consecutive heartbeats before a worker takes over from stale workers. After a database outage all workers look stale; this
 * gives the running ones time to send a heartbeat.
 */
const HEARTBEATS_BEFORE_TAKEOVER = 3;

/**
 * Sends notifications until stopped, WORKER_CONCURRENCY at a time; without a mailer they wait. Expires them with and without
 * one. `stop` waits up to DRAIN_SECONDS for those being sent. Delivery is at least once: a message is sent twice if its worker crashes, stops or
 * loses the database for 20 seconds after the mail server accepted it and before that is recorded.
 */
export function startSending(services: Services, mailer: Mailer | undefined, log: Log): { stop(): Promise<void> } {
  const { WORKER_CONCURRENCY, DRAIN_SECONDS } = services.settings;
  const queue = createQueue(services.db, `${hostname()}:${process.pid}:${randomUUID()}`);
  const inFlight = new Set<string>();
  const [stopping, closing] = [new AbortController(), new AbortController()];

  const sendNext = async (send: Send) => {
    const claimed = await queue.claim();
    if (!claimed) return POLL_MS;
    inFlight.add(claimed.notificationId);
    await deliver(claimed, { queue, send, log, signal: closing.signal }).finally(() =>
      inFlight.delete(claimed.notificationId),
    );
    return 0;
  };

  let heartbeatsInARow = 0;
  let last = performance.now();
  const sendHeartbeat = async () => {
    const now = performance.now();
    // Start over if the process was suspended: other workers may have taken over.
    const before = now - last < 2 * HEARTBEAT_MS ? heartbeatsInARow : 0;
    last = now;
    heartbeatsInARow = 0;
    await queue.heartbeat([...inFlight]);
    await recordActivity(services.db, mailer ? "worker.sending" : "worker.waiting");
    heartbeatsInARow = before + 1;
    const released = heartbeatsInARow < HEARTBEATS_BEFORE_TAKEOVER ? [] : await queue.releaseStale();
    for (const { givenUp, ...facts } of released) {
      if (givenUp) log.error({ ...facts, reason: givenUp }, "notification given up");
      else log.warn(facts, "took over from a stale worker");
    }
    return HEARTBEAT_MS;
  };

  const send = mailer && makeSender(services, mailer, log);
  const sending = Array.from(
    { length: WORKER_CONCURRENCY },
    async () =>
      send &&
      repeat(() => sendNext(send), {
        signal: stopping.signal,
        retryMs: POLL_MS,
        onFailure: (err) => log.warn({ err }, "cannot claim notifications"),
      }),
  );
  const expire = async () => {
    await expireNotifications(services, log, stopping.signal);
    return EXPIRY_MS;
  };
  const expiring = repeat(expire, {
    signal: stopping.signal,
    retryMs: HEARTBEAT_MS,
    onFailure: (err) => log.warn({ err }, "cannot expire notifications"),
  });
  const heartbeats = repeat(sendHeartbeat, {
    signal: closing.signal,
    retryMs: HEARTBEAT_MS,
    onFailure: (err) => log.warn({ err }, "the worker cannot send its heartbeat"),
  });
  return {
    async stop() {
      stopping.abort();
      await waitAtMost(DRAIN_SECONDS, Promise.all([...sending, expiring]));
      closing.abort();
      await heartbeats;
    },
  };
}
