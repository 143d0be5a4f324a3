import { SettingsError } from "../../server/config.js";
import { type ErrorCode, type FieldError, ServiceError } from "../../server/errors.js";
import { databaseTrouble } from "./database-trouble.js";

/** What programs read of a failure, beside its line for people. */
interface FailureDetails {
  code?: ErrorCode | "USAGE_ERROR" | "INVALID_SETTINGS" | "COMMAND_FAILED";
  /** The refused options or arguments. */
  errors?: FieldError[] | undefined;
}

/** A failure that has its line for people already. Exit code 2 is wrong usage, 1 is everything else. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  readonly exitCode: 1 | 2;
  readonly details: FailureDetails;

  constructor(message: string, exitCode: 1 | 2 = 1, details: FailureDetails = {}) {
    super(message);
    this.exitCode = exitCode;
    this.details = details;
  }

  /** Of refused options or arguments. */
  static ofFields(errors: FieldError[]): CommandFailure {
    const message = errors.map(({ field, issue }) => `${field}: ${issue}`).join("; ");
    return new CommandFailure(message, 2, { code: "VALIDATION_ERROR", errors });
  }
}

/** How a command speaks of what the core refuses. */
export interface Wording {
  /** Options or arguments of input fields, where they are not the field's name in kebab case without "Id". */
  options?: Record<string, string>;
  /** What RESOURCE_NOT_FOUND means here. */
  missing?: string;
}

/** A failure as one line for people, without a stack, a secret or a password, and the exit code. */
export function explain(
  error: unknown,
  { databaseUrl, wording = {} }: { databaseUrl?: string | undefined; wording?: Wording } = {},
): CommandFailure {
  if (error instanceof CommandFailure) return error;
  if (error instanceof SettingsError) {
    return new CommandFailure(error.message, 1, { code: "INVALID_SETTINGS" });
  }
  if (error instanceof ServiceError && error.serviceCode !== "INTERNAL_ERROR") return refusal(error, wording);
  const cause = error instanceof ServiceError ? error.cause : error;
  const line = (databaseUrl && databaseTrouble(cause, databaseUrl)) || lastLine(cause);
  return new CommandFailure(withoutSecrets(line, databaseUrl));
}

function refusal({ serviceCode: code, message, errors }: ServiceError, { options, missing }: Wording) {
  if (code === "RESOURCE_NOT_FOUND") return new CommandFailure(missing ?? message, 1, { code });
  if (code === "INVALID_CURSOR") return new CommandFailure(`--after: ${message}`, 2, { code });
  if (code !== "VALIDATION_ERROR" || !errors?.length) return new CommandFailure(message, 1, { code });
  const named = errors.map(({ field, issue }) => ({ field: options?.[field] ?? optionOf(field), issue }));
  return CommandFailure.ofFields(named);
}

const optionOf = (field: string) =>
  `--${field.replace(/Id$/, "").replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`)}`;

// Prisma's messages begin with the call and its place in the code, and end with what went wrong.
function lastLine(error: unknown): string {
  const lines = (error instanceof Error ? error.message : String(error)).split("\n");
  const line = lines.findLast((line) => line.trim())?.trim() ?? "Something went wrong.";
  const ours = error instanceof Error && /^PrismaClient/.test(error.name);
  return ours ? `This is a fault of guest-forms itself, please report it: ${line}` : line;
}

/** The text without the address and its password. */
export function withoutSecrets(text: string, url: string | undefined): string {
  const { password = "" } = url && URL.canParse(url) ? new URL(url) : {};
  const secrets = [url, password, decode(password)].filter((secret) => secret);
  return secrets.reduce((safe: string, secret) => safe.replaceAll(secret ?? "", "…"), text);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
