import { setTimeout as sleep } from "node:timers/promises";
import { classify } from "../failures.js";
import type { Log } from "../log.js";
import { MailRefused } from "./mailer.js";
import type { Claimed, Queue } from "./queue.js";
import type { Send } from "./send.js";

interface Deps {
  queue: Queue;
  send: Send;
  log: Log;
  /** Aborts when the worker no longer waits for outcomes to be recorded. */
  signal: AbortSignal;
}

/** Sends a claimed notification and records the outcome. */
export async function deliver({ id, formId, attempts }: Claimed, deps: Deps): Promise<void> {
  const { queue, send, log } = deps;
  const facts = { notificationId: id, formId };
  /** `isFinal`: no further attempt follows, whether the outcome itself can be recorded or not. */
  const record = async (outcome: () => Promise<void>, isFinal: boolean) => {
    if (await untilRecorded(outcome, facts, deps)) return;
    await untilRecorded(() => queue.markFailed(id, NOT_RECORDED, isFinal), facts, deps);
  };
  try {
    const hadRecipient = await send(formId);
    await record(() => (hadRecipient ? queue.markSent(id) : queue.remove(id)), true);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const isFinal = error instanceof MailRefused && error.isFinal;
    log.warn({ ...facts, attempts, reason, isFinal }, "notification not sent");
    await record(() => queue.markFailed(id, reason, isFinal), isFinal);
  }
}

const NOT_RECORDED = "the outcome could not be recorded";

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

/**
 * Retries during an outage, until `signal` aborts: a message whose outcome is not recorded would be sent again. Resolves
 * to false after any other failure, which would fail again.
 */
async function untilRecorded(
  record: () => Promise<void>,
  facts: object,
  { log, signal }: Deps,
): Promise<boolean> {
  for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      await record();
      return true;
    } catch (error) {
      if (classify(error) === "fault") {
        log.error({ ...facts, err: error }, "cannot record the outcome of a notification");
        return false;
      }
      if (pauseMs === FIRST_PAUSE_MS)
        log.error({ ...facts, err: error }, "cannot record the outcome of a notification yet");
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
  return true;
}
