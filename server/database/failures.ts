import { ServiceError, unavailable } from "../errors.js";

/** Retry a conflict at once and an outage later; a fault is a bug. */
export type Failure = "conflict" | "unavailable" | "fault";

/** The request cannot be served now, but a retry may succeed. */
export class Unavailable extends Error {
  readonly code = "57014";
}

/** Another transaction has written what this one was about to write. A retry from the start finds it. */
export class Conflict extends Error {
  readonly code = "40001";
}

/** An AbortSignal, or any object that throws once no further work may start. */
export type StopSignal = Pick<AbortSignal, "throwIfAborted">;

// Serialization failures, deadlocks, unique violations of concurrent equal creates, imports and users, and a replay whose form is
// past its retention and was just deleted, which a retry resolves.
const CONFLICT =
  /^(40001|40P01|creations_holder_id_current_fingerprint_key|idempotency_keys_(pkey|form_id_fkey)|(users|listings)_external_id_key|users_email_lower_key)$/;
// Lost or refused connections, exhausted resources, operator intervention, standbys, statement and lock timeouts, and what keeps
// the database from being written; socket errors of the operating system.
const UNAVAILABLE =
  /^(STANDBY|08...|53...|57P0.|57014|55000|55P03|25006|25P03|25P04|28000|28P01|3D000|42501|58030|ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)$/;
const UNAVAILABLE_TEXT =
  /timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error|not queryable|Cannot use a pool after calling end|the database system is/i;
/** What an operator must fix: role, password, privileges, database name, a standby, a database that cannot be written. */
const NEEDS_OPERATOR = /^(STANDBY|25006|28000|28P01|3D000|42501|53100|55000)$/;
const TLS = /^(CERT_\w+|\w*SELF_SIGNED_CERT\w*|UNABLE_TO_\w+|HOSTNAME_MISMATCH|ERR_TLS_\w+|ERR_SSL_[\w/]+|EPROTO)$/;
const NEEDS_OPERATOR_TEXT = /\bSSL connection|^SASL:/;

/** Classifies failures reported by pg. */
export function classify(error: unknown): Failure {
  const facts = factsOf(error);
  const texts = facts.flatMap(({ codes, message }) => [...codes, message]);
  if (texts.some((text) => CONFLICT.test(text))) return "conflict";
  if (texts.some((text) => UNAVAILABLE.test(text) || UNAVAILABLE_TEXT.test(text))) return "unavailable";
  const isConnection = ({ isFatal, isConnecting }: ErrorFacts) => isFatal || isConnecting;
  if (facts.some(isConnection) || facts.some(isAboutConnecting)) return "unavailable";
  return "fault";
}

/** Classifies a failed statement or transaction; undefined if the service itself aborted it. */
export const databaseFailure = (error: unknown): Failure | undefined =>
  error instanceof ServiceError || error instanceof Unavailable ? undefined : classify(error);

const isAboutConnecting = ({ codes, message }: ErrorFacts) =>
  codes.some((code) => TLS.test(code)) || NEEDS_OPERATOR_TEXT.test(message);

/** Whether an operator must fix something, such as a password, before the database can be used. */
export const needsOperator = (error: unknown): boolean =>
  factsOf(error).some((fact) => fact.codes.some((code) => NEEDS_OPERATOR.test(code)) || isAboutConnecting(fact));

/** The level at which a failed piece of work that is repeated is logged. */
export const logLevelOf = (error: unknown): "error" | "warn" => (needsOperator(error) ? "error" : "warn");

/** Converts any error to a ServiceError. The original becomes `cause`, for the log. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (classify(error) === "fault") return new ServiceError("INTERNAL_ERROR", { cause: error });
  return unavailable({ cause: error });
}

/** What is known about an error. */
export interface ErrorFacts {
  /** Error codes, and the name of the violated constraint. */
  codes: string[];
  message: string;
  /** Postgres refused or closed the connection. */
  isFatal: boolean;
  /** The operating system could not connect. */
  isConnecting: boolean;
}

const MAX_DEPTH = 5;

/** Returns the facts of an error and of the errors it wraps, outermost first. */
export function factsOf(error: unknown, depth = 0): ErrorFacts[] {
  if (typeof error !== "object" || error === null || depth > MAX_DEPTH) return [];
  const fields = error as Record<string, unknown>;
  const own = {
    codes: [fields.code, fields.constraint].filter((code) => typeof code === "string"),
    message: typeof fields.message === "string" ? fields.message : "",
    isFatal: fields.severity === "FATAL" || fields.severity === "PANIC",
    isConnecting: fields.syscall === "connect" || fields.syscall === "getaddrinfo",
  };
  const inner = [fields.cause, ...(Array.isArray(fields.errors) ? fields.errors : [])];
  return [own, ...inner.flatMap((part) => factsOf(part, depth + 1))];
}
