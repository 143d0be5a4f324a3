import cluster, { type Worker } from "node:cluster";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Gateway } from "../serve.js";
import { written } from "./log.js";

/** What a worker reports to the primary: that it listens, or why it could not start. */
type Report = { report: "listening"; url: string } | { report: "failed"; reason: string };
/** What the primary asks of a worker: to hand over to its replacement, or to stop with all others. */
type Order = { order: "retire" | "stop" };

/** Milliseconds until a worker that has ended is replaced: more each time, until one lives for long. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const LONG_LIFE_MS = 10_000;
/** Seconds beyond those that a worker may drain, for closing what it has open on a busy machine. */
const GRACE_SECONDS = 10;

/** One worker process, from its start to its end. */
interface Member {
  worker: Worker;
  bornAt: number;
  /** The address on which it listens; rejects where it ends before. */
  listening: Promise<string>;
  /** Why it has ended. */
  ended: Promise<string>;
}

export interface Fleet {
  url: string;
  /** Replaces the workers one after the other; each serves until its replacement listens. */
  restart(): Promise<void>;
  /** Ends all workers, as each of them would end alone. */
  stop(): Promise<void>;
  /** Ends them at once. */
  kill(): void;
}

/**
 * Starts so many workers, which share the port, and replaces those that end. They run the command that this process
 * runs. Throws, with the reason, where the first one cannot start.
 */
export async function startFleet(options: { size: number; settings: Settings; log: Logger }): Promise<Fleet> {
  const { size, settings, log } = options;
  const { DRAIN_DELAY_SECONDS, DRAIN_SECONDS } = settings;
  const members = new Set<Member>();
  let stopping = false;

  const start = (): Member => {
    const member = startMember();
    members.add(member);
    void member.ended.then(() => members.delete(member));
    return member;
  };

  /** Gives an order and waits for the end, which it forces after some time. */
  const dismiss = async (member: Member, order: Order["order"], seconds: number) => {
    const { worker, ended } = member;
    const kill = () => {
      log.error({ worker: worker.process.pid }, "a worker does not end: it is killed");
      worker.process.kill("SIGKILL");
    };
    const timer = setTimeout(kill, (seconds + GRACE_SECONDS) * 1000);
    // One whose channel is closed is about to end anyway.
    worker.send({ order } satisfies Order, () => {});
    await ended.finally(() => clearTimeout(timer));
  };

  /** Keeps one worker running, by replacing it when it ends. */
  const keep = (first: Member) => {
    let current: Member | undefined = first;
    let pause = FIRST_PAUSE_MS;
    let timer: NodeJS.Timeout | undefined;
    let isReplacing = false;

    const replaceLater = () => {
      timer = setTimeout(() => !stopping && watch(start()), pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    };
    const watch = (member: Member) => {
      current = member;
      void member.ended.then((reason) => {
        if (current !== member || stopping) return;
        current = undefined;
        if (performance.now() - member.bornAt >= LONG_LIFE_MS) pause = FIRST_PAUSE_MS;
        const worker = member.worker.process.pid;
        log.error({ worker, reason, replacedInMs: isReplacing ? 0 : pause }, "a worker has ended");
        if (!isReplacing) replaceLater();
      });
    };
    watch(first);

    /** Rejects where the replacement cannot start; then the old worker stays. */
    return async () => {
      clearTimeout(timer);
      isReplacing = true;
      try {
        const next = start();
        await next.listening;
        if (stopping) return;
        const old = current;
        watch(next);
        if (old) await dismiss(old, "retire", 2 * DRAIN_SECONDS);
      } finally {
        isReplacing = false;
        if (!current && !stopping) replaceLater();
      }
    };
  };

  const first = start();
  const url = await first.listening;
  const others = Array.from({ length: size - 1 }, start);
  const replacements = [first, ...others].map(keep);
  await Promise.allSettled(others.map(({ listening }) => listening));

  const restart = async () => {
    log.info({ workers: size }, "replacing the workers one by one");
    try {
      for (const replace of replacements) {
        if (stopping) return;
        await replace();
      }
      log.info({}, "the workers are replaced");
    } catch (error) {
      if (stopping) return;
      log.error({ reason: (error as Error).message }, "a replacement cannot start: the other workers stay");
    }
  };
  let restarting: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;

  return {
    url,
    restart() {
      // One asked for meanwhile begins afterwards, for what it is to bring in may have come too late for this one.
      waiting ??= (restarting ?? Promise.resolve()).then(() => {
        waiting = undefined;
        restarting = restart();
        return restarting;
      });
      return waiting;
    },
    async stop() {
      stopping = true;
      const dismissed = [...members].map((member) =>
        dismiss(member, "stop", DRAIN_DELAY_SECONDS + DRAIN_SECONDS),
      );
      await Promise.all(dismissed);
    },
    kill() {
      for (const { worker } of members) worker.process.kill("SIGKILL");
    },
  };
}

function startMember(): Member {
  // The workers take connections themselves: one that this process has dealt out to a worker that is just dying would
  // hang for good.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  const worker = cluster.fork();
  let reason: string | undefined;
  const ended = new Promise<string>((resolve) => {
    worker.once("exit", (code, signal) =>
      resolve(reason ?? `ended by ${signal ?? `itself, with code ${code}`}`),
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
  return { worker, bornAt: performance.now(), listening, ended };
}

/**
 * Starts what one worker runs, reports it to the primary, and waits until that asks it to end. "retire": its
 * replacement listens, and it has served its connections to their end. "stop": the whole fleet is stopping.
 */
export async function runWorker(
  start: () => Promise<Gateway>,
): Promise<{ gateway: Gateway; asked: Order["order"] }> {
  const stop = received("stop");
  const retire = received("retire");
  // A terminal's Ctrl-C and a service manager's stop reach every process; the primary passes them on in good order.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  const gateway = await start().catch(async (error: Error) => {
    await tell({ report: "failed", reason: error.message });
    process.exit(1);
  });
  await written();
  await tell({ report: "listening", url: gateway.url });
  const asked = await Promise.race([stop, retire.then((order) => gateway.retire().then(() => order))]);
  return { gateway, asked };
}

const received = <Wanted extends Order["order"]>(order: Wanted) =>
  new Promise<Wanted>((resolve) => {
    process.on("message", (message: Order) => message?.order === order && resolve(order));
  });

const tell = (report: Report) => new Promise((sent) => process.send?.(report, sent));
