import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { flushLogs } from "../runtime/log.js";

/** Under npm, Ctrl-C arrives twice: from the terminal and from npm. */
const DUPLICATE_SIGNAL_MS = 500;

export type StopRequest = ReturnType<typeof listenForStop>;

/** SIGHUP is sent if the terminal is closed. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Listens for stop signals. A second signal runs `onForcedStop` and exits. */
export function listenForStop(onForcedStop: () => void = () => {}) {
  let requestedAt: number | undefined;
  const requested = new Promise<void>((resolve) => {
    const onSignal = (signal: NodeJS.Signals) => {
      if (requestedAt === undefined) {
        requestedAt = performance.now();
        resolve();
      } else if (performance.now() - requestedAt > DUPLICATE_SIGNAL_MS) {
        try {
          onForcedStop();
        } catch {
          // Exit regardless.
        }
        void flushLogs().then(() => process.exit(128 + constants.signals[signal]));
      }
    };
    for (const signal of SIGNALS) process.on(signal, onSignal);
  });
  return {
    /** Resolves at the first signal. */
    requested,
    isRequested: () => requestedAt !== undefined,
    /** Throws if a stop was requested. Called between the steps of a start. */
    throwIfRequested() {
      if (requestedAt !== undefined) throw new Error("Stopped while starting.");
    },
  };
}

const POLL_MS = 500;

/**
 * Calls back when the npm that started this process through a shell has exited. npm forwards SIGTERM only to the shell,
 * and SIGHUP to no process, so this process would keep running.
 */
export function onNpmExit(callback: () => void): void {
  if (!process.env.npm_lifecycle_event) return;
  const initial = parentIds();
  const timer = setInterval(() => {
    if (parentIds() === initial) return;
    clearInterval(timer);
    callback();
  }, POLL_MS).unref();
}

/** The process ids of this process's parents: npm, or the shell and, if /proc exists, npm. */
function parentIds(): string {
  const { ppid } = process;
  try {
    const [, name = "", npm] = /\((.*)\) \S (\d+)/.exec(readFileSync(`/proc/${ppid}/stat`, "utf8")) ?? [];
    return /^(ba|da|k|z)?sh$/.test(name) ? `${ppid} ${npm}` : `${ppid}`;
  } catch {
    return `${ppid}`;
  }
}
