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

  const expire = async () => {
    await expireNotifications(services, log, stopping.signal);
    return EXPIRY_MS;
  };

  const start = (work: () => Promise<number>, { signal }: AbortController, retryMs: number, failure: string) =>
    repeat(work, { signal, retryMs, onFailure: (err) => log.warn({ err }, failure) });
  const send = mailer && makeSender(services, mailer, log);
  const startSender = (send: Send) => start(() => sendNext(send), stopping, POLL_MS, "cannot claim notifications");
  const sending = send ? Array.from({ length: WORKER_CONCURRENCY }, () => startSender(send)) : [];
  const expiring = start(expire, stopping, HEARTBEAT_MS, "cannot expire notifications");
  const heartbeats = start(sendHeartbeat, closing, HEARTBEAT_MS, "the worker cannot send its heartbeat");
  return {
    async stop() {
      stopping.abort();
      await waitAtMost(DRAIN_SECONDS, Promise.all([...sending, expiring]));
      closing.abort();
      await heartbeats;
    },
  };
}
