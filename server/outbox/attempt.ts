import type { Log } from "../access/context.js";
import { classify, needsOperator } from "../database/failures.js";
import { writeProblemOf } from "../database/writes.js";
import type { Claimed, claimValues } from "./claim.js";
import type { Outcome } from "./record.js";
import type { OutboxTable } from "./states.js";

/** How an attempt has failed. The message is one line, without the recipient's address or a secret. */
export class SendingFailed extends Error {
  /** Another attempt would fail the same way. */
  readonly isFinal: boolean;

  constructor(reason: string, isFinal: boolean) {
    super(reason);
    this.isFinal = isFinal;
  }
}

/** How the rows of one table are claimed, sent and recorded. */
export interface Channel<Row extends Claimed = Claimed, Ending extends Outcome = Outcome> {
  table: OutboxTable;
  /** Rows that a process sends at the same time. */
  concurrency: number;
  maxAttempts: number;
  /** Users see the reasons of failures. Failures of receivers are logged as information only. */
  isQuiet?: true;
  /** Claims rows that are due; see `claimValues`. */
  claim(values: ReturnType<typeof claimValues>): Promise<Row[]>;
  /** Makes an attempt. Rejects with SendingFailed if the receiver does not accept it. After any other error it is made again. */
  send(row: Row): Promise<Ending>;
  /** The outcome of an attempt that has failed with `error`. */
  toFailure(row: Row, failure: Outcome, error: unknown): Ending;
  /** Records outcomes in one statement. */
  record(outcomes: Ending[]): Promise<void>;
}

/** Sends a claimed row. Never rejects. */
export async function attempt<Row extends Claimed, Ending extends Outcome>(
  channel: Channel<Row, Ending>,
  row: Row,
  log: Log,
): Promise<Ending> {
  try {
    return await channel.send(row);
  } catch (error) {
    const isKnown = error instanceof SendingFailed;
    const reason = isKnown || !channel.isQuiet ? reasonOf(error) : "the service could not send it";
    const isFinal = row.attempts >= channel.maxAttempts || (isKnown && error.isFinal);
    // A stack trace does not help with a refusal or an outage.
    const isFault = !isKnown && classify(error) === "fault";
    const logFields = {
      channel: channel.table,
      ...row.facts,
      attempts: row.attempts,
      reason,
      ...(isFault && { err: error }),
      advice: writeProblemOf(error)?.advice,
    };
    const isLoud = !channel.isQuiet || isFault;
    if (isLoud && isFinal) log.error(logFields, "given up");
    else if (!isKnown && needsOperator(error)) log.error(logFields, "cannot send");
    else if (isLoud) log.warn(logFields, "not sent");
    else log.info(logFields, "not sent");
    return channel.toFailure(row, { id: row.id, state: isFinal ? "failed" : "retrying", reason }, error);
  }
}

/** Returns the last line of the message. */
const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).trim().split("\n").at(-1) ?? "";
