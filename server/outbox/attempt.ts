import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../access/context.js";
import { classify } from "../database/failures.js";
import type { Claimed, Facts } from "./queue.js";

/** How an attempt has failed. The message is one line, without the recipient's address or a secret. */
export class SendingFailed extends Error {
  /** Another attempt would fail the same way. */
  readonly isFinal: boolean;

  constructor(reason: string, isFinal: boolean) {
    super(reason);
    this.isFinal = isFinal;
  }
}

/** Records the outcome of an attempt in the database. */
export type RecordOutcome = () => Promise<unknown>;

/** One kind of rows of the outbox: emails, or webhook deliveries. */
export interface Channel<Row extends Claimed = Claimed> {
  /** For the log. */
  name: string;
  /** Rows that a process sends at the same time. */
  concurrency: number;
  maxAttempts: number;
  /** Users see the reasons of failures. Failures of receivers are logged as information only. */
  isQuiet?: true;
  /** Claims rows that are due, at most `free`. `inFlight` are those that this process is sending. */
  claim(free: number, inFlight: readonly Row[]): Promise<Row[]>;
  /** Makes an attempt, and returns how to record its outcome. Rejects with SendingFailed if another one may succeed. */
  send(row: Row): Promise<RecordOutcome>;
  /** Schedules the next attempt unless this one was final. `error` is what `send` rejected with, if anything. */
  recordFailure(row: Row, failure: { reason: string; isFinal: boolean; error?: unknown }): Promise<unknown>;
}

interface Deps {
  log: Log;
  /** Aborts when the worker stops waiting for outcomes to be recorded. */
  signal: AbortSignal;
}

/** Sends a claimed row and records the outcome. */
export async function attempt<Row extends Claimed>(channel: Channel<Row>, row: Row, deps: Deps): Promise<void> {
  const { log } = deps;
  const facts = factsOf(row);
  /** `isFinal`: make no further attempt, even if the outcome cannot be recorded. */
  const record = async (outcome: RecordOutcome, isFinal: boolean) => {
    if (await retryUntilRecorded(outcome, facts, deps)) return;
    const failure = { reason: "the outcome could not be recorded", isFinal };
    await retryUntilRecorded(() => channel.recordFailure(row, failure), facts, deps);
  };
  try {
    await record(await channel.send(row), true);
  } catch (error) {
    const isKnown = error instanceof SendingFailed;
    const reason = isKnown || !channel.isQuiet ? reasonOf(error) : "the service could not send it";
    const isFinal = row.attempts >= channel.maxAttempts || (isKnown && error.isFinal);
    // A stack trace does not help with a refusal or an outage.
    const isFault = !isKnown && classify(error) === "fault";
    const logFields = { ...facts, attempts: row.attempts, reason, ...(isFault && { err: error }) };
    if (channel.isQuiet && !isFault) log.info(logFields, "notification not sent");
    else if (isFinal) log.error(logFields, "notification given up");
    else log.warn(logFields, "notification not sent");
    await record(() => channel.recordFailure(row, { reason, isFinal, error }), isFinal);
  }
}

/** Only these: a row may hold a secret. */
export const factsOf = ({ notificationId, formId, endpointId, correlationId }: Facts): Facts => ({
  notificationId,
  formId,
  ...(endpointId && { endpointId }),
  correlationId,
});

/** Returns the last line: Prisma's messages start with a code excerpt. */
const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).trim().split("\n").at(-1) ?? "";

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

/**
 * Records an outcome. Retries during a database outage, because a message whose outcome is not recorded is sent again.
 * Resolves to true once it is recorded or `signal` has aborted, and to false after a failure that is not an outage.
 */
async function retryUntilRecorded(record: RecordOutcome, facts: Facts, { log, signal }: Deps): Promise<boolean> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      await record();
      return true;
    } catch (error) {
      if (classify(error) === "fault") {
        log.error({ ...facts, err: error }, "cannot record the outcome of a notification");
        return false;
      }
      if (signal.aborted) {
        log.error({ ...facts, err: error }, "stopped before the outcome of a notification was recorded");
        return true;
      }
      if (pauseMs === FIRST_PAUSE_MS)
        log.error({ ...facts, err: error }, "cannot record the outcome of a notification yet");
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
}
