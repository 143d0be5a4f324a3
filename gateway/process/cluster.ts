import cluster, { type Worker } from "node:cluster";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Gateway } from "../serve.js";
import { flushLogs } from "./log.js";

// After an upgrade and a restart, the primary runs the old code and the workers the new: keep the messages compatible.

/** Message of a worker to the primary: it listens, or could not start. */
type Report = { report: "listening"; url: string } | { report: "failed"; reason: string };
/** Message of the primary to a worker: its replacement listens, or all workers stop. */
type Order = { order: "retire" | "stop" };

/** Backoff before a worker that ended is replaced. Doubles each time, and starts over after a stable worker. */
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;
const STABLE_AFTER_MS = 10_000;
/** Time that a worker has to end after its drain timeout. Then it is killed. */
const KILL_GRACE_SECONDS = 10;

interface WorkerProcess {
  worker: Worker;
  startedAt: number;
  /** Resolves with the address it listens on. Rejects if the worker ends first. */
  listening: Promise<string>;
  /** Resolves with the reason when the worker has ended. */
  ended: Promise<string>;
}

export interface Fleet {
  url: string;
  /** Rolling restart: each worker serves until its replacement listens. */
  restart(): Promise<void>;
  /** Graceful shutdown of all workers. */
  stop(): Promise<void>;
  /** Kills all workers. */
  kill(): void;
}

/**
 * Starts `size` workers that share the port and run the command of this process, and replaces those that end. Throws if
 * the first one cannot start.
 */
export async function startFleet(options: { size: number; settings: Settings; log: Logger }): Promise<Fleet> {
  const { size, settings, log } = options;
  const { DRAIN_DELAY_SECONDS, DRAIN_SECONDS } = settings;
  const running = new Set<WorkerProcess>();
  let isStopping = false;

  const start = (): WorkerProcess => {
    const started = startWorkerProcess();
    running.add(started);
    void started.ended.then(() => running.delete(started));
    return started;
  };

  /** Sends an order and waits until the worker ends. Kills it after the timeout. */
  const stopWorker = async (
    { worker, ended }: WorkerProcess,
    order: Order["order"],
    timeoutSeconds: number,
  ) => {
    const kill = () => {
      log.error({ worker: worker.process.pid }, "a worker did not stop in time: killing it");
      worker.process.kill("SIGKILL");
    };
    const timer = setTimeout(kill, (timeoutSeconds + KILL_GRACE_SECONDS) * 1000);
    // Ignore errors: a worker whose channel is closed is ending anyway.
    worker.send({ order } satisfies Order, () => {});
    await ended.finally(() => clearTimeout(timer));
  };

  /** Replaces a worker each time it ends. Returns a function that replaces it for a restart. */
  const supervise = (first: WorkerProcess) => {
    let current: WorkerProcess | undefined = first;
    let backoffMs = MIN_BACKOFF_MS;
    let timer: NodeJS.Timeout | undefined;
    let isReplacing = false;

    const replaceLater = () => {
      timer = setTimeout(() => !isStopping && watch(start()), backoffMs);
      backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS);
    };
    const watch = (started: WorkerProcess) => {
      current = started;
      void started.ended.then((reason) => {
        if (current !== started || isStopping) return;
        current = undefined;
        if (performance.now() - started.startedAt >= STABLE_AFTER_MS) backoffMs = MIN_BACKOFF_MS;
        const worker = started.worker.process.pid;
        log.error({ worker, reason, replacedInMs: isReplacing ? 0 : backoffMs }, "a worker exited");
        if (!isReplacing) replaceLater();
      });
    };
    watch(first);

    /** Rejects if the replacement cannot start. Then the old worker stays. */
    return async () => {
      clearTimeout(timer);
      isReplacing = true;
      try {
        const next = start();
        await next.listening;
        if (isStopping) return;
        const old = current;
        watch(next);
        if (old) await stopWorker(old, "retire", 2 * DRAIN_SECONDS);
      } finally {
        isReplacing = false;
        if (!current && !isStopping) replaceLater();
      }
    };
  };

  const first = start();
  const url = await first.listening;
  const others = Array.from({ length: size - 1 }, start);
  const replacements = [first, ...others].map(supervise);
  await Promise.allSettled(others.map(({ listening }) => listening));

  const restart = async () => {
    log.info({ workers: size }, "replacing the workers one by one");
    try {
      for (const replace of replacements) {
        if (isStopping) return;
        await replace();
      }
      log.info({}, "all workers were replaced");
    } catch (error) {
      if (isStopping) return;
      log.error(
        { reason: (error as Error).message },
        "a replacement worker cannot start: the old workers keep running",
      );
    }
  };
  let restarting: Promise<void> | undefined;
  let queued: Promise<void> | undefined;

  return {
    url,
    restart() {
      // Queue a restart requested during a restart: the running one may have missed its changes.
      queued ??= (restarting ?? Promise.resolve()).then(() => {
        queued = undefined;
        restarting = restart();
        return restarting;
      });
      return queued;
    },
    async stop() {
      isStopping = true;
      const timeoutSeconds = DRAIN_DELAY_SECONDS + DRAIN_SECONDS;
      await Promise.all([...running].map((worker) => stopWorker(worker, "stop", timeoutSeconds)));
    },
    kill() {
      for (const { worker } of running) worker.process.kill("SIGKILL");
    },
  };
}

function startWorkerProcess(): WorkerProcess {
  // Workers accept connections themselves: one that the primary passes to a dying worker hangs forever.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  const worker = cluster.fork();
  let reason: string | undefined;
  const ended = new Promise<string>((resolve) => {
    worker.once("exit", (code, signal) =>
      resolve(reason ?? (signal ? `killed by ${signal}` : `exited with code ${code}`)),
    );
    worker.on("error", (error: Error) => worker.process.pid === undefined && resolve(error.message));
  });
  const listening = new Promise<string>((resolve, reject) => {
    worker.on("message", (message: Report) => {
      if (message?.report === "listening") resolve(message.url);
      if (message?.report === "failed") reason = message.reason;
    });
    void ended.then((why) => reject(new Error(why)));
  });
  listening.catch(() => {});
  return { worker, startedAt: performance.now(), listening, ended };
}

/**
 * Runs in a worker: starts the gateway, reports it to the primary, and waits for an order. Drains its connections first if
 * the order is "retire": its replacement listens. "stop": all workers are stopping.
 */
export async function runClusterWorker(
  start: () => Promise<Gateway>,
): Promise<{ gateway: Gateway; order: Order["order"] }> {
  const stop = receiveOrder("stop");
  const retire = receiveOrder("retire");
  // Ignore signals: Ctrl-C and service managers send them to all processes, and the primary sends the orders.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  const gateway = await start().catch(async (error: Error) => {
    await sendReport({ report: "failed", reason: error.message });
    process.exit(1);
  });
  await flushLogs();
  await sendReport({ report: "listening", url: gateway.url });
  const order = await Promise.race([
    stop,
    retire.then((retired) => gateway.drainConnections().then(() => retired)),
  ]);
  return { gateway, order };
}

const receiveOrder = <Wanted extends Order["order"]>(order: Wanted) =>
  new Promise<Wanted>((resolve) => {
    process.on("message", (message: Order) => message?.order === order && resolve(order));
  });

const sendReport = (report: Report) => new Promise((sent) => process.send?.(report, sent));
