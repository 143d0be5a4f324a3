import { constants } from "node:os";

/** Under npm, Ctrl-C arrives twice: from the terminal and from npm. */
const DUPLICATE_SIGNAL_MS = 500;

export type StopRequest = ReturnType<typeof listenForStop>;

/** SIGHUP is sent if the terminal is closed. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Listens for stop signals. A second signal runs `onForcedStop` and exits immediately. */
export function listenForStop(onForcedStop: () => void = () => {}) {
  let requestedAt: number | undefined;
  const requested = new Promise<void>((resolve) => {
    const onSignal = (signal: NodeJS.Signals) => {
      if (requestedAt === undefined) {
        requestedAt = Date.now();
        resolve();
      } else if (Date.now() - requestedAt > DUPLICATE_SIGNAL_MS) {
        try {
          onForcedStop();
        } catch {
          // Exit regardless.
        }
        process.exit(128 + constants.signals[signal]);
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
