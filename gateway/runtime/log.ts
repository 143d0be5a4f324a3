import { writeSync } from "node:fs";
import { destination, type Logger, pino } from "pino";
import type { Settings } from "../../server/config.js";
import { waitAtMost } from "../../server/timeout.js";
import { describeError } from "./describe-error.js";
import { escapeJson, toJson } from "./terminal.js";

/** Writes up to this size to a pipe are atomic, so processes that share one do not mix their lines. */
const PIPE_BYTES = 4096;
/** How long a line may wait for others: a write per line would take a tenth of the CPU time of a request. */
const MAX_DELAY_MS = 100;
/** Characters of lines that may wait if the reader of the log stalls. Further lines are dropped. */
const MAX_WAITING_LENGTH = 16 * 2 ** 20;

/** Shared by all logs of the process. */
let stream: ReturnType<typeof destination> | undefined;
let isClosed = false;

function standardError() {
  if (!stream) {
    // Before pino's own listener, which writes the last lines.
    process.on("exit", testTerminal);
    const opened = destination({
      fd: 2,
      sync: false,
      minLength: PIPE_BYTES / 2,
      maxWrite: PIPE_BYTES,
      maxLength: MAX_WAITING_LENGTH,
    });
    stream = opened.on("error", closeWithTerminal);
    // Not the stream's own timer, which would go on after the terminal is closed.
    setInterval(() => isClosed || opened.flush(), MAX_DELAY_MS).unref();
  }
  return stream;
}

/** Drops all further lines when the terminal is closed. Otherwise pino would retry its last lines forever at exit. */
function closeWithTerminal(error: NodeJS.ErrnoException): void {
  if (error.code !== "EIO" && error.code !== "EPIPE") throw error;
  isClosed = true;
  stream?.destroy();
}

/** The terminal may have been closed since the last line. */
function testTerminal(): void {
  try {
    writeSync(2, "");
  } catch (error) {
    closeWithTerminal(error as NodeJS.ErrnoException);
  }
}

const output = { write: (line: string) => void (isClosed || standardError().write(line)) };

/** Of all logs. What libraries attach to their errors is not logged. */
export const LOG_OPTIONS = { base: null, serializers: { err: describeError } };

/** Logs JSON lines on standard error. Standard output is for the output of commands. */
export const createLog = (level: Settings["LOG_LEVEL"]): Logger =>
  pino({ ...LOG_OPTIONS, level, timestamp: pino.stdTimeFunctions.isoTime, hooks: { streamWrite: toSafeLine } }, output);

/** Docker splits longer lines, which are then no longer JSON. */
const MAX_LINE_BYTES = 16_000;
/** Of these, the names below fit even if all are escapes. */
const MAX_TEXT_OF_LONG_LINE = 500;
/** All that is left of a line whose cut texts are still too many. Of an error, its message. */
const NAMES_OF_TOO_LONG_LINE = ["level", "time", "correlationId", "err", "message", "msg"];

/** The line without secrets. Texts are cut if it is too long. */
export function toSafeLine(line: string): string {
  const safe = redactSecrets(line);
  if (fits(safe)) return safe;
  const cut = JSON.parse(safe, (_name, value) =>
    typeof value === "string" ? value.slice(0, MAX_TEXT_OF_LONG_LINE) : value,
  );
  const shorter = `${toJson(cut)}\n`;
  return fits(shorter) ? shorter : `${escapeJson(JSON.stringify(cut, NAMES_OF_TOO_LONG_LINE))}\n`;
}

/** In UTF-8, of a UTF-16 unit. */
const MAX_BYTES_PER_CHARACTER = 3;

const fits = (line: string) =>
  line.length * MAX_BYTES_PER_CHARACTER <= MAX_LINE_BYTES || Buffer.byteLength(line) <= MAX_LINE_BYTES;

/** A stalled reader of the log must not block the process. */
const FLUSH_TIMEOUT_SECONDS = 1;

/** Resolves when all earlier lines are written, so that the output of a command comes after them. */
export function flushLogs(): Promise<void> {
  const current = stream;
  if (isClosed || !current) return Promise.resolve();
  const flushed = new Promise<void>((resolve) => {
    // The first may end with a write that began before it. Without a reader, this finds out: pino's own flush would never end.
    current.once("close", resolve).flush(() => current.flush(() => resolve()));
  });
  return waitAtMost(FLUSH_TIMEOUT_SECONDS, flushed);
}

/** Logs the error that ends the process, at any LOG_LEVEL. Node.js would print it with all that a library attached to it. */
export function logCrash(log: Logger): void {
  process.on("uncaughtException", (error) => {
    if (!log.isLevelEnabled("fatal")) log.level = "fatal";
    log.fatal({ err: error }, "the process crashed");
    void flushLogs().then(() => process.exit(1));
  });
}

const KEY = /grf_(rw|ro)_[0-9A-Za-z]{6,49}/g;
// The first group keeps a JSON escape before the address whole.
const EMAIL = /(\\u[\da-f]{4}|\\.)?[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z\d-]+(?:\.[a-z\d-]+)+/gi;

/**
 * Removes keys and email addresses from a log line, because errors of libraries may quote their input. Addresses that
 * are already masked stay. Escapes what a terminal would act on.
 */
export function redactSecrets(line: string): string {
  // Without the line break, a line of printable ASCII is returned without a search for hidden characters.
  const escaped = line.endsWith("\n") ? `${escapeJson(line.slice(0, -1))}\n` : escapeJson(line);
  const keyless = escaped.includes("grf_") ? escaped.replace(KEY, "grf_$1_…") : escaped;
  return keyless.includes("@") ? keyless.replace(EMAIL, "$1[email]") : keyless;
}
