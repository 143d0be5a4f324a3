import type { RequestHandler } from "express";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { ServiceError } from "../../server/errors.js";
import { type StopSignal, Unavailable } from "../../server/failures.js";
import { sendEnvelope } from "./envelope.js";

/** What a request may take in addition to its longest wait for the database. */
const MARGIN_MS = 300;

/** Time limit of a request in milliseconds: enough for one long wait for the database, not for several in a row. */
export const answerTime = (settings: Settings): number =>
  Math.max(settings.DATABASE_CONNECT_TIMEOUT_MS, settings.DATABASE_STATEMENT_TIMEOUT_MS) + MARGIN_MS;

/**
 * A timeout that can be paused. It is its own `StopSignal`, because an AbortSignal per request costs 5 µs: when time is
 * up, a statement that runs may still take effect, but no further one begins.
 */
export class Deadline implements StopSignal {
  #isOver = false;
  readonly #onTimeout: () => void;
  #left: number;
  #startedAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(milliseconds: number, onTimeout: () => void) {
    this.#left = milliseconds;
    this.#onTimeout = onTimeout;
  }

  throwIfAborted(): void {
    if (this.#isOver) throw new Unavailable("the request took too long");
  }

  start(): void {
    this.#startedAt = performance.now();
    this.#timer = setTimeout(() => {
      this.#isOver = true;
      this.#onTimeout();
    }, this.#left);
  }

  pause(): void {
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#startedAt;
  }
}

/** Answers a request 503 when its time is up. `correlate` ends the time when the response has ended. */
export function limitTime(settings: Settings, log: Logger): RequestHandler {
  const limit = answerTime(settings);
  const answer = sendEnvelope(log);
  return (req, res, next) => {
    const deadline = new Deadline(limit, () => {
      if (!res.headersSent && !res.destroyed) answer(tooLate(), req, res, next);
    });
    res.locals.deadline = deadline;
    deadline.start();
    next();
  };
}

const tooLate = () =>
  new ServiceError("INTERNAL_ERROR", {
    status: 503,
    retryAfter: 1,
    message: "The service is briefly unavailable.",
    cause: new Error("the request took too long"),
  });

/** Ends here if the deadline has already answered: nothing further begins. */
export const stopIfAnswered: RequestHandler = (_req, res, next) => {
  if (!res.headersSent) next();
};
