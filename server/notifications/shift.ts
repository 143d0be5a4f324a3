import { EventEmitter } from "node:events";
import {
  Logger,
  type ParsedCronItem,
  type Runner,
  run,
  type TaskList,
  type WorkerEvents,
} from "graphile-worker";
import type pg from "pg";
import type { Services } from "../context.js";
import type { Holder } from "./heartbeat.js";
import type { WorkerLog } from "./worker.js";

/** How long a job counts as worked on after its end, which graphile-worker has yet to write down. */
const WRITING_DOWN_MS = 10_000;

export interface Shift extends Holder {
  runner: Runner;
}

export interface ShiftOptions {
  services: Services;
  pool: pg.Pool;
  log: WorkerLog;
  taskList: TaskList;
  parsedCronItems: ParsedCronItem[];
}

/** Runs graphile-worker until it is stopped, or gives up because it could not write down what became of a job. */
export async function beginShift({ services, pool, log, ...work }: ShiftOptions): Promise<Shift> {
  const events = new EventEmitter() as WorkerEvents;
  let name = "";
  events.on("pool:create", ({ workerPool }) => {
    name = workerPool.id;
  });
  const inHand = followJobs(events);
  const failed = failedToBegin(events);
  const runner = await run({
    pgPool: pool,
    events,
    schema: "graphile_worker",
    noPreparedStatements: !services.db.hasSessions,
    concurrency: services.settings.WORKER_CONCURRENCY,
    noHandleSignals: true,
    // Without a delay, even of nothing, graphile-worker leaves what it writes down unwatched, and its failure ends the
    // process.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    logger: new Logger(() => (level, message) => {
      if (level === "error" || level === "warning") log.warn({ worker: level }, message);
    }),
    ...work,
  });
  void failed.then(() => runner.stop().catch(() => {}));
  return { runner, name, jobs: () => [...inHand.keys()] };
}

/**
 * Resolves when the first look for jobs fails: graphile-worker keeps the failure to learn its tasks' ids for good, and
 * would never find a job.
 */
const failedToBegin = (events: WorkerEvents): Promise<void> =>
  new Promise((resolve) => {
    const settle = () => {
      events.off("worker:getJob:error", fail).off("worker:getJob:empty", settle).off("job:start", settle);
    };
    const fail = () => {
      settle();
      resolve();
    };
    events.on("worker:getJob:error", fail).on("worker:getJob:empty", settle).on("job:start", settle);
  });

/** The jobs that are worked on; one may begin again before its last end is written down. */
function followJobs(events: WorkerEvents): Map<string, number> {
  const inHand = new Map<string, number>();
  let begun = 0;
  events.on("job:start", ({ job }) => {
    begun += 1;
    inHand.set(String(job.id), begun);
  });
  events.on("job:complete", ({ job }) => {
    const turn = inHand.get(String(job.id));
    const forget = () => {
      if (inHand.get(String(job.id)) === turn) inHand.delete(String(job.id));
    };
    setTimeout(forget, WRITING_DOWN_MS).unref();
  });
  return inHand;
}
