import { UnknownMigrations } from "../../prisma/history.js";
import { SettingsError } from "../../server/config.js";
import { connectionAdvice, describeConnectionFailure } from "../../server/connection-failures.js";
import { classify, factsOf, needsOperator } from "../../server/database/failures.js";
import { type ErrorCode, type FieldError, ServiceError } from "../../server/errors.js";
import { printableLine } from "../runtime/terminal.js";

/** The machine-readable part of a failure. */
interface FailureDetails {
  code?: ErrorCode | "USAGE_ERROR" | "INVALID_SETTINGS" | "COMMAND_FAILED";
  /** The rejected options or arguments, or the rejected fields of a file with their lines. */
  errors?: (FieldError & { line?: number })[] | undefined;
}

/** A failure whose message is ready to print. Exit code 2 is a usage error, 1 is everything else. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  readonly exitCode: 1 | 2;
  readonly details: FailureDetails;

  constructor(message: string, exitCode: 1 | 2 = 1, details: FailureDetails = {}) {
    super(message);
    this.exitCode = exitCode;
    this.details = details;
  }

  /** For rejected options or arguments. */
  static ofFields(errors: FieldError[]): CommandFailure {
    const message = errors.map(({ field, issue }) => printableLine(`${field}: ${issue}`)).join("; ");
    return new CommandFailure(message, 2, { code: "VALIDATION_ERROR", errors });
  }

  /** For rejected lines of a file. */
  static ofLines(unsorted: readonly (FieldError & { line: number })[], summary: string): CommandFailure {
    const errors = unsorted.toSorted((a, b) => a.line - b.line);
    const lines = errors.map(({ line, field, issue }) => printableLine(`line ${line}: ${field}: ${issue}`));
    return new CommandFailure([...lines, summary].join("\n"), 1, { code: "VALIDATION_ERROR", errors });
  }
}

/** How a command reports errors of the core. */
export interface Wording {
  /** What errors call a field of the input. */
  names?: Record<string, string>;
  /** Message for RESOURCE_NOT_FOUND. */
  notFound?: string | undefined;
}

/** What to do about UnknownMigrations. */
export const OTHER_VERSION_ADVICE =
  "run that version, or start with an empty database (`guest-forms dev --fresh` empties the one in .data/).";

/** The error as one printable line, without stack, secret or password, and its exit code. */
export function explain(
  error: unknown,
  { databaseUrl, wording = {} }: { databaseUrl?: string | undefined; wording?: Wording } = {},
): CommandFailure {
  if (error instanceof CommandFailure) return error;
  const cause = error instanceof ServiceError ? error.cause : error;
  if (cause instanceof SettingsError) {
    return new CommandFailure(cause.message, 1, { code: "INVALID_SETTINGS" });
  }
  if (error instanceof ServiceError && error.serviceCode !== "INTERNAL_ERROR")
    return explainServiceError(error, wording);
  const line = (databaseUrl && describeDatabaseError(cause, databaseUrl)) || lastLine(cause);
  return new CommandFailure(redactUrl(line, databaseUrl));
}

function explainServiceError({ serviceCode: code, message, errors }: ServiceError, { names, notFound }: Wording) {
  if (code === "RESOURCE_NOT_FOUND") return new CommandFailure(notFound ?? message, 1, { code });
  if (code === "INVALID_CURSOR") return new CommandFailure(BAD_CURSOR, 2, { code });
  if (code !== "VALIDATION_ERROR" || !errors?.length) return new CommandFailure(message, 1, { code });
  const named = errors.map(({ field, issue }) => ({ field: names?.[field] ?? field, issue }));
  return CommandFailure.ofFields(named);
}

const BAD_CURSOR = "--after: must be the cursor printed after the previous page, with the same other options";

function lastLine(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).split("\n");
  return lines.findLast((line) => line.trim())?.trim() ?? "Unknown error.";
}

/** The text without the URL and its password. */
export function redactUrl(text: string, url: string | undefined): string {
  const { password = "" } = url && URL.canParse(url) ? new URL(url) : {};
  const secrets = [url, password, decodeUri(password)].filter((secret) => secret);
  return secrets.reduce((safe: string, secret) => safe.replaceAll(secret ?? "", "…"), text);
}

/** The decoded part of a URL; the part itself if it is malformed. */
function decodeUri(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Messages by PostgreSQL's SQLSTATE. */
const KNOWN_ERRORS: [codes: RegExp, message: (host: string, name: string) => string][] = [
  [
    /^(28P01|28000)$/,
    (host) =>
      `The database at ${host} rejected the user name or password: check DATABASE_URL. Special characters must be percent-encoded.`,
  ],
  [/^3D000$/, (host, name) => `There is no database ${name} at ${host}.`],
  [/^(42P01|42703|3F000)$/, () => "The database is not up to date: run `guest-forms migrate` first."],
  [/^STANDBY$/, (host) => `The database at ${host} is a standby: set DATABASE_URL to the primary.`],
  [/^25006$/, (host) => `The database at ${host} is read-only: check that it is not a standby.`],
  [/^53100$/, (host) => `The database at ${host} has no disk space left.`],
  [/^53300$/, (host) => `The database at ${host} has no free connections.`],
  [/^(57014|55P03)$/, (host) => `The database at ${host} did not answer in time.`],
];

/** One sentence for the operator. Undefined if the database did not cause the error. */
function describeDatabaseError(error: unknown, databaseUrl: string): string | undefined {
  const { host: named, pathname, searchParams } = new URL(databaseUrl);
  const host = decodeUri(named) || searchParams.get("host") || "localhost";
  const name = decodeUri(pathname.slice(1));
  if (error instanceof UnknownMigrations)
    return `Cannot use the database ${name} at ${host}: ${error.message}: ${OTHER_VERSION_ADVICE}`;
  const facts = factsOf(error);
  const codes = facts.flatMap((fact) => fact.codes);
  const advice = connectionAdvice(error, "DATABASE_URL");
  if (advice && codes.includes("28000")) return `The database at ${host} rejected a connection without TLS. ${advice}`;
  for (const [pattern, message] of KNOWN_ERRORS) {
    if (codes.some((code) => pattern.test(code))) return message(host, name);
  }
  const sqlState = codes.find((code) => SQL_STATE.test(code));
  if (classify(error) === "unavailable" && !needsOperator(error)) {
    const code = codes.find((candidate) => SYSTEM_CODE.test(candidate)) ?? sqlState;
    return `The database at ${host} cannot be reached or did not answer in time${code ? ` (${code})` : ""}.${advice ? ` ${advice}` : ""}`;
  }
  if (!sqlState)
    return advice && `The database at ${host} cannot be used: ${describeConnectionFailure(error, "DATABASE_URL")}`;
  const message = facts.find((fact) => fact.codes.includes(sqlState))?.message;
  return `The database at ${host} returned an error: ${String(message).replace(/\s+/g, " ")} (${sqlState}).`;
}

/** PostgreSQL's error classes, to exclude those of the operating system, which may also have five characters. */
const SQL_STATE = /^(\d\d|F0|HV|P0|XX)[0-9A-Z]{3}$/;
const SYSTEM_CODE = /^E[A-Z_]+$/;
