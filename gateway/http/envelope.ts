import type { ErrorRequestHandler, Response } from "express";
import type { Logger } from "pino";
import { logLevelOf, toServiceError } from "../../server/database/failures.js";
import { writeProblemOf } from "../../server/database/writes.js";
import { ERRORS, type ServiceError } from "../../server/errors.js";
import { sendJson } from "./request.js";

/** The body of every error response. */
export const envelope = (error: ServiceError, correlationId: string) => ({
  code: error.serviceCode,
  message: error.message,
  correlationId,
  ...(error.errors && { errors: error.errors }),
});

/** Answers any error with the envelope. The cause is logged, never sent. */
export function sendEnvelope(log: Logger): ErrorRequestHandler {
  return (failure, _req, res, _next) => {
    const error = toServiceError(failure);
    const { correlationId } = res.locals;
    const isOutage = error.status === 503;
    // The deadline has already answered and logged 503.
    if (res.writableEnded && isOutage) return;
    // No stack: an outage fails many requests for the same reason. Without a cause it is no outage: the gateway itself refused.
    if (isOutage && error.cause) {
      const advice = writeProblemOf(error)?.advice;
      log[logLevelOf(error)]({ correlationId, reason: reasonOf(error), advice }, "unavailable");
    } else if (error.status >= 500 && !isOutage)
      log.error({ correlationId, err: error.cause ?? error }, "request failed");
    if (res.writableEnded) return;
    sendError(res, error, envelope(error, correlationId));
  };
}

/** Sends an error with its headers. If a response has begun, cuts the connection. */
export function sendError(res: Response, { status, retryAfter, location }: ServiceError, body: object): void {
  if (res.headersSent) {
    res.destroy();
    return;
  }
  res.setHeader("Cache-Control", "no-store");
  if (status === ERRORS.UNAUTHENTICATED.status) res.setHeader("WWW-Authenticate", "Bearer");
  if (retryAfter !== undefined) res.setHeader("Retry-After", String(retryAfter));
  if (location !== undefined) res.setHeader("Location", location);
  sendJson(res.status(status), JSON.stringify(body));
}

const reasonOf = ({ cause, message }: ServiceError) =>
  (cause instanceof Error ? cause.message : message).trim().split("\n").at(-1);
