import type { RequestHandler, Response } from "express";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { type StopSignal, Unavailable } from "../../server/database/failures.js";
import { unavailable } from "../../server/errors.js";
import { sendEnvelope } from "./envelope.js";

/** Time a request has in addition to its longest wait for the database. */
const MARGIN_MS = 300;

/** Timeout of a request: enough for one long wait for the database, not for several in a row. */
export const requestTimeoutMs = (settings: Settings): number =>
  Math.max(settings.DATABASE_CONNECT_TIMEOUT_MS, settings.DATABASE_STATEMENT_TIMEOUT_MS) + MARGIN_MS;

/**
 * A timeout that can be paused. Once it expires, no further statement is sent, but those already sent may still take effect.
 * Implements `StopSignal` itself, because an AbortSignal per request costs 5 µs.
 */
export class Deadline implements StopSignal {
  #isExpired = false;
  readonly #onTimeout: () => void;
  #remainingMs: number;
  #startedAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(timeoutMs: number, onTimeout: () => void) {
    this.#remainingMs = timeoutMs;
    this.#onTimeout = onTimeout;
  }

  throwIfAborted(): void {
    if (this.#isExpired) throw new Unavailable("the request took too long");
  }

  start(): void {
    this.#startedAt = performance.now();
    this.#timer = setTimeout(() => {
      this.#isExpired = true;
      this.#onTimeout();
    }, this.#remainingMs);
  }

  pause(): void {
    clearTimeout(this.#timer);
    this.#remainingMs -= performance.now() - this.#startedAt;
  }
}

/** Answers 503 when the timeout expires. `correlate` stops the timer when the response has ended. */
export function enforceTimeout(settings: Settings, log: Logger): RequestHandler {
  const timeoutMs = requestTimeoutMs(settings);
  const sendError = sendEnvelope(log);
  return (req, res, next) => {
    const waitedMs = performance.now() - res.locals.arrivedAt;
    const deadline = new Deadline(timeoutMs - waitedMs, () => {
      if (!isAnswered(res)) sendError(unavailable({ cause: new Error("the request took too long") }), req, res, next);
    });
    res.locals.deadline = deadline;
    deadline.start();
    next();
  };
}

/**
 * Whether the deadline has already sent a response, or the client has disconnected. Node destroys only the response that is sent
 * next, not those that wait behind it.
 */
export const isAnswered = (res: Response): boolean => res.headersSent || res.destroyed || res.req.socket.destroyed;

/** Skips the remaining handlers if nobody waits for their response. */
export const stopIfAnswered: RequestHandler = (_req, res, next) => {
  if (!isAnswered(res)) next();
};
