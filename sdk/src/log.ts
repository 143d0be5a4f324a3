import { GuestFormsError } from "./errors.js";
import { readEnv, runtime } from "./runtime.js";

const LEVELS = ["off", "error", "warn", "info", "debug"] as const;

/** How much the SDK logs. */
export type LogLevel = (typeof LEVELS)[number];

/** Destination of the SDK's log lines; `console` works. Lines never contain a key, a body or an email address. */
export interface Logger {
  /**
   * Called once per attempt. Fields: method, path, status, ms, attempt (from 1), correlationId.
   *
   * @example
   * ```ts
   * const client = new GuestForms({ logger: { debug: (message, fields) => console.log(message, fields) } });
   * ```
   */
  debug(message: string, fields: Record<string, unknown>): void;
  /**
   * Called once per retry. Fields: attempt (the one that failed), delay (ms), error (class name), status.
   *
   * @example
   * ```ts
   * const client = new GuestForms({ logger: console, logLevel: "warn" });
   * ```
   */
  warn?(message: string, fields: Record<string, unknown>): void;
  /**
   * Called once per call that still fails after its last attempt (network, timeout, 429, 5xx). Fields: attempt, error
   * (class name), status, correlationId.
   *
   * @example
   * ```ts
   * const client = new GuestForms({ logger: console, logLevel: "error" });
   * ```
   */
  error?(message: string, fields: Record<string, unknown>): void;
}

/** Passes lines at or above the log level to the logger. */
export class Log {
  readonly #logger: Logger;
  readonly #level: number;

  constructor(logger: Logger | undefined, level: LogLevel | undefined) {
    const name = (level ?? readEnv("GUEST_FORMS_LOG")) || (logger ? "debug" : "off");
    this.#level = LEVELS.indexOf(name as LogLevel);
    if (this.#level < 0) {
      throw new GuestFormsError(`logLevel and GUEST_FORMS_LOG must be one of ${LEVELS.join(", ")}`);
    }
    this.#logger = logger ?? runtime.console;
  }

  write(level: "debug" | "warn" | "error", message: string, fields: Record<string, unknown>): void {
    if (LEVELS.indexOf(level) > this.#level) return;
    try {
      this.#logger[level]?.(`guest-forms: ${message}`, fields);
    } catch {
      // A failing logger must not fail the call.
    }
  }
}
