import { factsOf } from "./error-facts.js";
import { ServiceError } from "./errors.js";

/** A conflict is worth an immediate retry, an outage a later one; anything else is a fault in our code. */
export type Failure = "conflict" | "unavailable" | "fault";

/** Something that cannot be answered now but may be later. */
export class Unavailable extends Error {
  readonly code = "57014";
}

/** An AbortSignal, or anything else that throws Unavailable once nothing further may be begun. */
export type StopSignal = Pick<AbortSignal, "throwIfAborted">;

const CONFLICT = /^(40001|40P01|P2034)$/;
const CONFLICT_TEXT = /TransactionWriteConflict/;
// Lost or refused connections, exhausted resources, operator intervention, read-only standbys, statement and lock
// timeouts; Prisma's codes for the same; the operating system's codes for sockets.
const UNAVAILABLE =
  /^(08...|53...|57P0.|55000|57014|55P03|25006|25P03|25P04|28000|28P01|3D000|58030|P1000|P1001|P1002|P1003|P1008|P1017|P2024|P2028|ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT)$/;
const UNAVAILABLE_TEXT =
  /timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error|not queryable|SocketTimeout|ConnectionClosed|DatabaseNotReachable|DatabaseDoesNotExist|AuthenticationFailed|TooManyConnections|the database system is/i;
/** Failures to connect that do not pass by themselves. */
const NEEDS_OPERATOR = /^(28000|28P01|3D000|P1000|P1003|AuthenticationFailed|DatabaseDoesNotExist)$/;

/** Reads the different shapes in which pg, Prisma's adapter and Prisma report the same failure. */
export function classify(error: unknown): Failure {
  const facts = factsOf(error).flatMap(({ codes, messages }) => [...codes, ...messages]);
  if (facts.some((fact) => CONFLICT.test(fact) || CONFLICT_TEXT.test(fact))) return "conflict";
  if (facts.some((fact) => UNAVAILABLE.test(fact) || UNAVAILABLE_TEXT.test(fact))) return "unavailable";
  return "fault";
}

/** Whether somebody has to change something, such as a password, before the database can be reached again. */
export const needsOperator = (error: unknown): boolean =>
  factsOf(error).some(({ codes }) => codes.some((code) => NEEDS_OPERATOR.test(code)));

/** Seconds after which a client should retry while the database cannot be reached. */
const RETRY_AFTER_SECONDS = 1;

/** Any failure as the error that leaves the core; the cause is kept for the log. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (classify(error) === "fault") return new ServiceError("INTERNAL_ERROR", { cause: error });
  return new ServiceError("INTERNAL_ERROR", {
    status: 503,
    retryAfter: RETRY_AFTER_SECONDS,
    message: "The service is briefly unavailable.",
    cause: error,
  });
}
