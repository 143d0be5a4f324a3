import { type ErrorFacts, factsOf } from "./error-facts.js";
import { ServiceError } from "./errors.js";

/** A conflict is worth an immediate retry, an outage a later one; anything else is a fault in our code. */
export type Failure = "conflict" | "unavailable" | "fault";

/** Something that cannot be answered now but may be later. */
export class Unavailable extends Error {
  readonly code = "57014";
}

/** An AbortSignal, or anything else that throws Unavailable once nothing further may be begun. */
export type StopSignal = Pick<AbortSignal, "throwIfAborted">;

// Serialization failures, deadlocks, and the unique keys of equal creates: the retry finds the other's.
const CONFLICT = /^(40001|40P01|P2034|creations_holder_id_current_fingerprint_key|idempotency_keys_pkey)$/;
const CONFLICT_TEXT = /TransactionWriteConflict/;
// Lost or refused connections, exhausted resources, operator intervention, read-only standbys, statement and lock
// timeouts; Prisma's codes for the same; the operating system's codes for sockets.
const UNAVAILABLE =
  /^(08...|53...|57P0.|55000|57014|55P03|25006|25P03|25P04|28000|28P01|3D000|58030|P1000|P1001|P1002|P1003|P1008|P1017|P2024|P2028|ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
const UNAVAILABLE_TEXT =
  /timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error|not queryable|Cannot use a pool after calling end|SocketTimeout|ConnectionClosed|DatabaseNotReachable|DatabaseDoesNotExist|AuthenticationFailed|TooManyConnections|the database system is/i;
/** Failures to connect that do not pass by themselves: the role or its password, its rights, the database, TLS. */
const NEEDS_OPERATOR =
  /^(28000|28P01|3D000|42501|55000|P1000|P1003|P1010|P1011|AuthenticationFailed|DatabaseDoesNotExist|DatabaseAccessDenied)$/;
const TLS =
  /^(TlsConnectionError|CERT_\w+|\w*SELF_SIGNED_CERT\w*|UNABLE_TO_\w+|HOSTNAME_MISMATCH|ERR_(TLS|SSL)_\w+|EPROTO)$/;
const NEEDS_OPERATOR_TEXT = /\bSSL connection|^SASL:/;

/** Reads the different shapes in which pg, Prisma's adapter and Prisma report the same failure. */
export function classify(error: unknown): Failure {
  const facts = factsOf(error);
  const texts = facts.flatMap(({ codes, messages }) => [...codes, ...messages]);
  if (texts.some((text) => CONFLICT.test(text) || CONFLICT_TEXT.test(text))) return "conflict";
  if (texts.some((text) => UNAVAILABLE.test(text) || UNAVAILABLE_TEXT.test(text))) return "unavailable";
  const isConnection = ({ isFatal, isConnecting }: ErrorFacts) => isFatal || isConnecting;
  if (facts.some(isConnection) || facts.some(isAboutConnecting)) return "unavailable";
  return "fault";
}

/** The class of a failed statement or transaction; undefined if it was our own code that ended it. */
export const databaseFailure = (error: unknown): Failure | undefined =>
  error instanceof ServiceError || error instanceof Unavailable ? undefined : classify(error);

const isAboutConnecting = ({ codes, messages }: ErrorFacts) =>
  codes.some((code) => TLS.test(code)) || messages.some((message) => NEEDS_OPERATOR_TEXT.test(message));

/** Whether an operator has to change something, such as a password, before the database can be reached again. */
export const needsOperator = (error: unknown): boolean =>
  factsOf(error).some(
    (fact) => fact.codes.some((code) => NEEDS_OPERATOR.test(code)) || isAboutConnecting(fact),
  );

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
