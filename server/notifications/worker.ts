import { setTimeout as sleep } from "node:timers/promises";
import { parseCronItems, type TaskList } from "graphile-worker";
import type pg from "pg";
import type { Services } from "../context.js";
import { ERASE_DUE, eraseDue } from "../people/retention.js";
import { FORM_CREATED } from "./enqueue.js";
import { startHeartbeat } from "./heartbeat.js";
import { makeLastAttempt, removeJob } from "./jobs.js";
import { FinalRefusal, makeSender } from "./send.js";
import { beginShift, type Shift } from "./shift.js";
import { openWorkerPool } from "./worker-pool.js";

/** Where the worker reports: a structured log such as pino's. */
export interface WorkerLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** What a Postgres that does not answer may cost a process that stops. */
const CLOSING_SECONDS = 2;
const RESTART_MS = 1_000;

/**
 * The worker: sends the notifications that creates have enqueued, and erases the addresses that are due, until it is
 * stopped. Rejects where it cannot begin; an outage of the database it outlasts. `stop` lets what is being sent be
 * finished (DRAIN_SECONDS at most).
 */
export async function startWorker(services: Services, log: WorkerLog): Promise<{ stop(): Promise<void> }> {
  const { pool, close } = openWorkerPool(services, log);
  const closing = new AbortController();
  const begin = () =>
    beginShift({
      services,
      pool,
      log,
      taskList: makeTasks(services, pool, log, closing.signal),
      parsedCronItems: parseCronItems(services.settings.RETENTION_DAYS > 0 ? [HOURLY] : []),
    });
  let shift = await begin().catch(async (error) => {
    await close();
    throw error;
  });
  const stopping = new AbortController();
  const heartbeat = startHeartbeat(pool, () => shift, log);
  const working = keepWorking(shift, begin, stopping.signal, log, (next) => {
    shift = next;
  });
  return {
    async stop() {
      stopping.abort();
      await inTime(services.settings.DRAIN_SECONDS, Promise.all([working, end(shift)]).then(heartbeat.stop));
      closing.abort();
      await inTime(CLOSING_SECONDS, close());
    },
  };
}

const HOURLY = {
  task: ERASE_DUE,
  match: "17 * * * *",
  options: { jobKey: ERASE_DUE, maxAttempts: 3 },
};

// graphile-worker's 25 attempts, each e times as long after the one before until they are six hours apart, take four
// days: as long as RFC 5321 (4.5.4.1) has senders try.
function makeTasks(services: Services, pool: pg.Pool, log: WorkerLog, closing: AbortSignal): TaskList {
  const send = makeSender(services, log);
  return {
    [FORM_CREATED]: async (payload, { job }) => {
      const { formId } = payload as { formId: string };
      try {
        await send(formId);
      } catch (error) {
        // Where this fails too, the next attempt hears the same refusal.
        if (error instanceof FinalRefusal) await makeLastAttempt(pool, job.id).catch(() => {});
        throw error;
      }
      // Beyond the end of the shift, which a lost database may bring about: the message has been sent.
      await removeJob(pool, job.id, closing);
    },
    [ERASE_DUE]: (_payload, { abortSignal }) => eraseDue(services, log, abortSignal),
  };
}

/** Begins a new shift whenever one has ended by itself. */
async function keepWorking(
  first: Shift,
  begin: () => Promise<Shift>,
  stopping: AbortSignal,
  log: WorkerLog,
  onBegin: (shift: Shift) => void,
): Promise<void> {
  let shift: Shift | undefined = first;
  while (!stopping.aborted) {
    await shift?.runner.promise.catch(() => {});
    if (stopping.aborted) return;
    if (shift) log.warn({}, "the worker lost its hold on the jobs and begins anew");
    await sleep(RESTART_MS, undefined, { signal: stopping }).catch(() => {});
    shift = await begin().catch(() => undefined);
    if (shift) onBegin(shift);
  }
  if (shift) await end(shift);
}

// One that has ended by itself says so by rejecting.
const end = ({ runner }: Shift) => runner.stop().catch(() => {});

/** Waits for `work`, but no longer than that. */
async function inTime(seconds: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, seconds * 1000);
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
