import { constants } from "node:os";

/** Ctrl-C under npm arrives twice: from the terminal, and passed on by npm. */
const ECHO_MS = 500;

export interface StopRequest {
  /** Resolves at the first signal. */
  asked: Promise<void>;
  isAsked(): boolean;
  /** Throws once a stop was asked for: called between the steps of a start. */
  check(): void;
}

/** Closing the terminal sends SIGHUP. */
const SIGNALS: NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Listens for the signals. A second one runs `force` and ends the process at once. */
export function stopRequest(force: () => void = () => {}, signals = SIGNALS): StopRequest {
  let askedAt: number | undefined;
  const asked = new Promise<void>((resolve) => {
    const onSignal = (signal: NodeJS.Signals) => {
      if (askedAt === undefined) {
        askedAt = Date.now();
        resolve();
      } else if (Date.now() - askedAt > ECHO_MS) {
        try {
          force();
        } catch {
          // What it would end has ended.
        }
        process.exit(128 + constants.signals[signal]);
      }
    };
    for (const signal of signals) process.on(signal, onSignal);
  });
  return {
    asked,
    isAsked: () => askedAt !== undefined,
    check() {
      if (askedAt !== undefined) throw new Error("Stopped while starting.");
    },
  };
}
