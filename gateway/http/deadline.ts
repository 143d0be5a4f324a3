import type { RequestHandler } from "express";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { ServiceError } from "../../server/errors.js";
import { sendEnvelope } from "./envelope.js";

/** What a request may take beside its longest wait for the database. */
const MARGIN_MS = 300;

/** Milliseconds within which a request is answered: one wait for the database may take its time, not several in a row. */
export const answerTime = (settings: Settings): number =>
  Math.max(settings.DATABASE_CONNECT_TIMEOUT_MS, settings.DATABASE_STATEMENT_TIMEOUT_MS) + MARGIN_MS;

/**
 * Three steps around the reading of the body, whose pace is the client's own: `start` and `resume` let the time run,
 * `pause` stops it. A request that runs out of it is answered 503, and begins no further change: only a statement that
 * had begun may still take effect, as where a connection breaks.
 */
export function deadline(
  settings: Settings,
  log: Logger,
): Record<"start" | "pause" | "resume", RequestHandler> {
  const limit = answerTime(settings);
  const answer = sendEnvelope(log);
  const run: RequestHandler = (req, res, next) => {
    const since = performance.now();
    const left = limit - (res.locals.spent ?? 0);
    const timer = setTimeout(() => {
      res.locals.isOverdue = true;
      if (!res.headersSent) answer(tooLate(), req, res, next);
    }, left);
    res.locals.stopClock = () => {
      clearTimeout(timer);
      res.locals.spent = limit - left + performance.now() - since;
    };
    next();
  };
  return {
    start(req, res, next) {
      res.once("close", () => res.locals.stopClock?.());
      run(req, res, next);
    },
    pause(_req, res, next) {
      res.locals.stopClock?.();
      if (!res.headersSent) next();
    },
    resume: run,
  };
}

const tooLate = () =>
  new ServiceError("INTERNAL_ERROR", {
    status: 503,
    retryAfter: 1,
    message: "The service is briefly unavailable.",
    cause: new Error("the request took too long"),
  });
