import { SettingsError } from "../../server/config.js";
import { type ErrorCode, type FieldError, ServiceError } from "../../server/errors.js";
import { decodeUri, describeDatabaseError } from "./database-error.js";

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
    const message = errors.map(({ field, issue }) => `${field}: ${issue}`).join("; ");
    return new CommandFailure(message, 2, { code: "VALIDATION_ERROR", errors });
  }
}

/** How a command reports errors of the core. */
export interface Wording {
  /** Option or argument per input field, if it is not the field's name in kebab case without "Id". */
  optionNames?: Record<string, string>;
  /** Message for RESOURCE_NOT_FOUND. */
  notFound?: string;
}

/** The error as one printable line, without stack, secret or password, and its exit code. */
export function explain(
  error: unknown,
  { databaseUrl, wording = {} }: { databaseUrl?: string | undefined; wording?: Wording } = {},
): CommandFailure {
  if (error instanceof CommandFailure) return error;
  if (error instanceof SettingsError) {
    return new CommandFailure(error.message, 1, { code: "INVALID_SETTINGS" });
  }
  if (error instanceof ServiceError && error.serviceCode !== "INTERNAL_ERROR")
    return explainServiceError(error, wording);
  const cause = error instanceof ServiceError ? error.cause : error;
  const line = (databaseUrl && describeDatabaseError(cause, databaseUrl)) || lastLine(cause);
  return new CommandFailure(redactUrl(line, databaseUrl));
}

function explainServiceError({ serviceCode: code, message, errors }: ServiceError, { optionNames, notFound }: Wording) {
  if (code === "RESOURCE_NOT_FOUND") return new CommandFailure(notFound ?? message, 1, { code });
  if (code === "INVALID_CURSOR") return new CommandFailure(`--after: ${message}`, 2, { code });
  if (code !== "VALIDATION_ERROR" || !errors?.length) return new CommandFailure(message, 1, { code });
  const named = errors.map(({ field, issue }) => ({ field: optionNames?.[field] ?? toOption(field), issue }));
  return CommandFailure.ofFields(named);
}

const toOption = (field: string) =>
  `--${field.replace(/Id$/, "").replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)}`;

// Prisma's messages start with the call and its source location; the last line says what went wrong.
function lastLine(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).split("\n");
  const line = lines.findLast((line) => line.trim())?.trim() ?? "Unknown error.";
  const isPrismaError = error instanceof Error && /^PrismaClient/.test(error.name);
  return isPrismaError ? `This is a bug in guest-forms, please report it: ${line}` : line;
}

/** The text without the URL and its password. */
export function redactUrl(text: string, url: string | undefined): string {
  const { password = "" } = url && URL.canParse(url) ? new URL(url) : {};
  const secrets = [url, password, decodeUri(password)].filter((secret) => secret);
  return secrets.reduce((safe: string, secret) => safe.replaceAll(secret ?? "", "…"), text);
}
