import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../log.js";
import type { Claimed, Queue } from "./queue.js";
import { FinalRefusal, type Send } from "./send.js";

/** Sends a claimed notification and records the outcome. */
export async function deliver(
  { id, formId, attempts }: Claimed,
  { queue, send, log, signal }: { queue: Queue; send: Send; log: Log; signal: AbortSignal },
): Promise<void> {
  const facts = { notificationId: id, formId };
  const recorded = (record: () => Promise<void>) => untilRecorded(record, facts, log, signal);
  try {
    const hadRecipient = await send(formId);
    await recorded(() => (hadRecipient ? queue.markSent(id) : queue.remove(id)));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const isFinal = error instanceof FinalRefusal;
    log.warn({ ...facts, attempts, reason, isFinal }, "notification not sent");
    await recorded(() => queue.markFailed(id, reason, isFinal));
  }
}

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

/** Retries until `signal` aborts: a message whose outcome is not recorded would be sent again. */
async function untilRecorded(
  record: () => Promise<void>,
  facts: object,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      return await record();
    } catch (error) {
      if (pauseMs === FIRST_PAUSE_MS)
        log.error({ ...facts, err: error }, "cannot record the outcome of a notification yet");
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
}
