import { GuestFormsError } from "./errors.js";
import { env, runtime } from "./runtime.js";

const LEVELS = ["off", "error", "warn", "info", "debug"] as const;

/** How much the SDK logs. */
export type LogLevel = (typeof LEVELS)[number];

/** Where the SDK writes its log lines; `console` fits. */
export interface Logger {
  /**
   * One line per request: method, path, status, ms, attempt, correlationId.
   *
   * @example
   * ```ts
   * const client = new GuestForms({ logger: { debug: (message, fields) => console.log(message, fields) } });
   * ```
   */
  debug(message: string, fields: Record<string, unknown>): void;
  /**
   * One line per retry: attempt, delay in milliseconds, the error's name, status.
   *
   * @example
   * ```ts
   * const client = new GuestForms({ logger: console, logLevel: "warn" });
   * ```
   */
  warn?(message: string, fields: Record<string, unknown>): void;
  /**
   * One line per call that still failed after its last try (network, timeout, 429, 5xx): attempt, the error's name,
   * status, correlationId.
   *
   * @example
   * ```ts
   * const client = new GuestForms({ logger: console, logLevel: "error" });
   * ```
   */
  error?(message: string, fields: Record<string, unknown>): void;
}

/** The lines that the level lets through. */
export class Log {
  readonly #logger: Logger;
  readonly #level: number;

  constructor(logger: Logger | undefined, level: LogLevel | undefined) {
    const chosen = (level ?? env("GUEST_FORMS_LOG")) || (logger ? "debug" : "off");
    this.#level = LEVELS.indexOf(chosen as LogLevel);
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
      // A broken logger must not lose the result of a create.
    }
  }
}
