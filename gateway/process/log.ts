import { destination, type Logger, pino } from "pino";
import type { Settings } from "../../server/config.js";
import { waitAtMost } from "../../server/timeout.js";

/** As much as a pipe takes whole: processes that share one, such as workers, do not write into each other's lines. */
const PIPE_BYTES = 4096;

/** The one stream of all logs of the process. */
let stream: ReturnType<typeof destination> | undefined;

function standardError() {
  stream ??= destination({ fd: 2, sync: false, maxWrite: PIPE_BYTES }).on("error", unlessTerminalClosed);
  return stream;
}

function unlessTerminalClosed(error: NodeJS.ErrnoException): void {
  if (error.code !== "EIO" && error.code !== "EPIPE") throw error;
}

/** JSON lines on standard error, so that standard output is free for what a command prints. */
export const createLog = (level: Settings["LOG_LEVEL"]): Logger =>
  pino({ level, base: null, timestamp, hooks: { streamWrite: withoutSecrets } }, standardError());

/** A reader that does not read must not hold a process. */
const WRITTEN_TIMEOUT_SECONDS = 1;

/** Resolves once what was logged before is written, so that what a command prints next comes after it. */
export function written(): Promise<void> {
  const drained = new Promise<void>((resolve) => standardError().once("drain", resolve));
  // Drains though nothing is left to write; `flush` does nothing unless lines are held back.
  standardError().write("");
  return waitAtMost(WRITTEN_TIMEOUT_SECONDS, drained);
}

let second = 0;
let toTheSecond = "";

// The same in all lines of a second, of which there may be thousands.
function timestamp(): string {
  const now = Date.now();
  const milliseconds = now % 1000;
  if (second !== now - milliseconds) {
    second = now - milliseconds;
    toTheSecond = new Date(second).toISOString().slice(0, 20);
  }
  return `,"time":"${toTheSecond}${String(milliseconds).padStart(3, "0")}Z"`;
}

const KEY = /grf_(rw|ro)_[0-9A-Za-z]{6,49}/g;
// What precedes may be an escape of JSON, which must stay whole.
const EMAIL = /(\\u[\da-f]{4}|\\.)?[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z\d-]+(?:\.[a-z\d-]+)+/gi;

/**
 * A log line without keys and e-mail addresses. Nothing of ours logs one; errors of libraries may quote what they were
 * given. Masked addresses stay.
 */
export function withoutSecrets(line: string): string {
  const keyless = line.includes("grf_") ? line.replace(KEY, "grf_$1_…") : line;
  return keyless.includes("@") ? keyless.replace(EMAIL, "$1[e-mail]") : keyless;
}
