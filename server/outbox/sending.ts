import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../access/context.js";
import type { Sql } from "../database/db.js";
import { logLevelOf } from "../database/failures.js";
import { withAdvice } from "../database/writes.js";
import { waitAtMost } from "../timeout.js";
import type { Activity, ActivityCounts } from "./activity.js";
import { attempt, type Channel } from "./attempt.js";
import { type Claimed, claimValues, ServedTenants } from "./claim.js";
import { releaseStale, sendHeartbeat } from "./heartbeats.js";
import { createRecorder, type Outcome } from "./record.js";
import { repeat } from "./repeat.js";
import type { OutboxTable } from "./states.js";

const POLL_MS = 1_000;
const HEARTBEAT_MS = 5_000;
/**
 * Consecutive heartbeats before a worker takes over from stale workers. After a database outage all workers look stale; this
 * gives the running ones time to send a heartbeat.
 */
const HEARTBEATS_BEFORE_TAKEOVER = 3;

interface Sending {
  workerId: string;
  channels: readonly Channel[];
  /** Only heartbeats use it, so that nothing delays them. */
  heartbeatDb: Sql;
  counts: ActivityCounts;
  /** What each heartbeat counts as. */
  activity: Activity;
  drainSeconds: number;
}

/** The ids of the rows that a process has claimed and not recorded, by table. */
type InFlight = Record<OutboxTable, Set<string>>;

/**
 * Sends what the channels claim until stopped. `stop` claims nothing more, and waits up to DRAIN_SECONDS for the attempts under way
 * and for their recording. A row is sent at least once: twice if its worker crashes, or loses the database for 20
 * seconds, after the receiver accepted it and before that is recorded.
 */
export function startSending(sending: Sending, log: Log): { stop(): Promise<void> } {
  const [stopping, closing] = [new AbortController(), new AbortController()];
  const inFlight: InFlight = { emails: new Set(), webhook_deliveries: new Set() };
  const senders = sending.channels.map((channel) =>
    createSender(channel, { ids: inFlight[channel.table], log, stopping: stopping.signal, closing: closing.signal }),
  );
  const heartbeats = repeat(createHeartbeat(sending, inFlight, log), {
    signal: closing.signal,
    retryMs: HEARTBEAT_MS,
    onFailure: (err) => log[logLevelOf(err)]({ ...withAdvice(err) }, "the worker cannot send its heartbeat"),
  });
  return {
    async stop() {
      stopping.abort();
      await waitAtMost(sending.drainSeconds, Promise.all(senders));
      for (const channel of TABLES) {
        const rows = inFlight[channel].size;
        if (rows > 0) log.warn({ channel, rows }, "stopped while sending: others send these again");
      }
      closing.abort();
      await heartbeats;
      await sending.counts.flush(sending.heartbeatDb).catch(() => {});
    },
  };
}

const TABLES: readonly OutboxTable[] = ["emails", "webhook_deliveries"];

/** Returns the function that sends a heartbeat, adds the worker's counts, and takes over from stale workers. */
export function createHeartbeat(
  { workerId, heartbeatDb: db, counts, activity }: Sending,
  inFlight: InFlight,
  log: Log,
) {
  let inARow = 0;
  let last = performance.now();
  return async () => {
    const now = performance.now();
    // Start over if the process was suspended: other workers may have taken over.
    const before = now - last < 2 * HEARTBEAT_MS ? inARow : 0;
    last = now;
    inARow = 0;
    // Each is sent, also if the other fails.
    await Promise.all(TABLES.map((table) => sendHeartbeat(db, table, workerId, [...inFlight[table]])));
    counts.add(activity);
    await counts.flush(db);
    inARow = before + 1;
    if (inARow < HEARTBEATS_BEFORE_TAKEOVER) return HEARTBEAT_MS;
    for (const table of TABLES) {
      const released = await releaseStale(db, table);
      counts.add(table === "emails" ? "email.crashed" : "delivery.crashed", released.length);
      for (const { facts, crashes, givenUp } of released) {
        if (givenUp) log.error({ channel: table, ...facts, crashes, reason: givenUp }, "given up");
        else log.warn({ channel: table, ...facts, crashes }, "took over from a stale worker");
      }
    }
    return HEARTBEAT_MS;
  };
}

interface SenderOptions {
  /** The rows in flight, for the heartbeats. */
  ids: Set<string>;
  log: Log;
  /** Claim nothing more. */
  stopping: AbortSignal;
  /** Wait for outcomes no longer. */
  closing: AbortSignal;
}

/**
 * Claims and sends the rows of a channel until `stopping` aborts. Resolves when the outcomes of all that it has claimed are
 * recorded. A row keeps its place until then, so that no more is claimed than can be recorded.
 */
async function createSender<Row extends Claimed, Ending extends Outcome>(
  channel: Channel<Row, Ending>,
  { ids, log, stopping, closing }: SenderOptions,
): Promise<void> {
  const record = createRecorder<Ending>({
    channel: channel.table,
    record: (outcomes) => channel.record(outcomes),
    log,
    signal: closing,
  });
  const inFlight = new Map<Row, Promise<void>>();
  const served = new ServedTenants();
  let wake = () => {};
  stopping.addEventListener("abort", () => wake(), { once: true });
  const send = async (row: Row) => {
    ids.add(row.id);
    served.add(row.tenantId);
    await record(await attempt(channel, row, log));
    ids.delete(row.id);
    inFlight.delete(row);
    wake();
  };
  /** Claims again when something has ended, at the latest after POLL_MS; at once if there may be more that is due. */
  const sendNext = async () => {
    const ended = new AbortController();
    wake = () => ended.abort();
    const free = channel.concurrency - inFlight.size;
    const claimed = free > 0 ? await channel.claim(claimValues(free, [...inFlight.keys()], served)) : [];
    for (const row of claimed) inFlight.set(row, send(row));
    if (claimed.length < free || free === 0) await sleep(POLL_MS, undefined, { signal: ended.signal }).catch(() => {});
    return 0;
  };
  await repeat(sendNext, {
    signal: stopping,
    retryMs: POLL_MS,
    onFailure: (err) => log[logLevelOf(err)]({ ...withAdvice(err), channel: channel.table }, "cannot claim"),
  });
  await Promise.all(inFlight.values());
}
