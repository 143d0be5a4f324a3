import { setTimeout as sleep } from "node:timers/promises";
import type { Log, Services } from "../access/context.js";
import { type Activity, recordActivity } from "../background/activity.js";
import { repeat } from "../background/repeat.js";
import { waitAtMost } from "../timeout.js";
import { attempt, type Channel, factsOf } from "./attempt.js";
import type { Claimed, Queue } from "./queue.js";

const POLL_MS = 1_000;
const HEARTBEAT_MS = 5_000;
/**
 * Consecutive heartbeats before a worker takes over from stale workers. After a database outage all workers look stale; this
 * gives the running ones time to send a heartbeat.
 */
const HEARTBEATS_BEFORE_TAKEOVER = 3;

interface Sending {
  queue: Queue;
  channels: readonly Channel[];
  /** What each heartbeat counts as. */
  activity: Activity;
}

/**
 * Sends what the channels claim until stopped. `stop` waits up to DRAIN_SECONDS for what is being sent. Delivery is at least
 * once: a row is sent twice if its worker crashes, stops or loses the database for 20 seconds after the receiver accepted it and
 * before that is recorded.
 */
export function startSending(
  { settings, db }: Pick<Services, "settings" | "db">,
  { queue, channels, activity }: Sending,
  log: Log,
): { stop(): Promise<void> } {
  const [stopping, closing] = [new AbortController(), new AbortController()];
  const inFlight = new Set<string>();
  const senders = channels.map((channel) => createSender(channel, inFlight, log, stopping.signal, closing.signal));

  let heartbeatsInARow = 0;
  let last = performance.now();
  const sendHeartbeat = async () => {
    const now = performance.now();
    // Start over if the process was suspended: other workers may have taken over.
    const before = now - last < 2 * HEARTBEAT_MS ? heartbeatsInARow : 0;
    last = now;
    heartbeatsInARow = 0;
    await queue.heartbeat([...inFlight]);
    await recordActivity(db, activity);
    heartbeatsInARow = before + 1;
    const released = heartbeatsInARow < HEARTBEATS_BEFORE_TAKEOVER ? [] : await queue.releaseStale();
    for (const { crashes, givenUp, ...row } of released) {
      const facts = { ...factsOf(row), crashes };
      if (givenUp) log.error({ ...facts, reason: givenUp }, "notification given up");
      else log.warn(facts, "took over from a stale worker");
    }
    return HEARTBEAT_MS;
  };
  const heartbeats = repeat(sendHeartbeat, {
    signal: closing.signal,
    retryMs: HEARTBEAT_MS,
    onFailure: (err) => log.warn({ err }, "the worker cannot send its heartbeat"),
  });
  return {
    async stop() {
      stopping.abort();
      await waitAtMost(settings.DRAIN_SECONDS, Promise.all(senders));
      closing.abort();
      await heartbeats;
    },
  };
}

/** Claims and sends the rows of a channel until `stopping` aborts. Resolves when all that it has claimed have ended. */
async function createSender<Row extends Claimed>(
  channel: Channel<Row>,
  inFlightIds: Set<string>,
  log: Log,
  stopping: AbortSignal,
  closing: AbortSignal,
): Promise<void> {
  const inFlight = new Map<Row, Promise<void>>();
  let wake = () => {};
  stopping.addEventListener("abort", () => wake(), { once: true });
  const send = async (row: Row) => {
    inFlightIds.add(row.notificationId);
    await attempt(channel, row, { log, signal: closing });
    inFlightIds.delete(row.notificationId);
    inFlight.delete(row);
    wake();
  };
  /** Claims again when something has ended, at the latest after POLL_MS. */
  const sendNext = async () => {
    const ended = new AbortController();
    wake = () => ended.abort();
    const free = channel.concurrency - inFlight.size;
    const claimed = free > 0 ? await channel.claim(free, [...inFlight.keys()]) : [];
    for (const row of claimed) inFlight.set(row, send(row));
    if (claimed.length === 0) await sleep(POLL_MS, undefined, { signal: ended.signal }).catch(() => {});
    return 0;
  };
  await repeat(sendNext, {
    signal: stopping,
    retryMs: POLL_MS,
    onFailure: (err) => log.warn({ err, channel: channel.name }, "cannot claim notifications"),
  });
  await Promise.all(inFlight.values());
}
