import { setTimeout as sleep } from "node:timers/promises";
import type { Log, Services } from "../access/context.js";
import { classify } from "../database/failures.js";
import { open } from "../secrets/secrets.js";
import { compose, maskEmail, type Notice } from "./compose.js";
import { NEEDS_NO_INVITATION } from "./expiry.js";
import { type Mailer, MailRejected } from "./mailer.js";
import { type Claimed, isLastAttempt, type Queue } from "./queue.js";

interface Deps {
  queue: Queue;
  send: Send;
  log: Log;
  /** Aborts when the worker stops waiting for outcomes to be recorded. */
  signal: AbortSignal;
}

/** Sends a claimed notification and records the outcome. */
export async function deliver(claimed: Claimed, deps: Deps): Promise<void> {
  const { queue, send, log } = deps;
  const { attempts, ...facts } = claimed;
  const { notificationId: id } = facts;
  /** `isFinal`: make no further attempt, even if the outcome cannot be recorded. */
  const record = async (outcome: () => Promise<unknown>, isFinal: boolean) => {
    if (await retryUntilRecorded(outcome, facts, deps)) return;
    await retryUntilRecorded(() => queue.markFailed(id, NOT_RECORDED, isFinal), facts, deps);
  };
  try {
    const outcome = await send(facts);
    await record(() => RECORD[outcome](queue, id), true);
  } catch (error) {
    const reason = reasonOf(error);
    const isFinal = isLastAttempt(claimed) || (error instanceof MailRejected && error.isFinal);
    // A stack trace does not help with a refusal or an outage.
    const isFault = !(error instanceof MailRejected) && classify(error) === "fault";
    const logFields = { ...facts, attempts, reason, ...(isFault && { err: error }) };
    if (isFinal) log.error(logFields, "notification given up");
    else log.warn(logFields, "notification not sent");
    await record(() => queue.markFailed(id, reason, isFinal), isFinal);
  }
}

const RECORD: Record<Outcome, (queue: Queue, id: string) => Promise<unknown>> = {
  sent: (queue, id) => queue.markSent(id),
  expired: (queue, id) => queue.markExpired(id),
  "no recipient": (queue, id) => queue.remove(id),
};

/** Returns the last line: Prisma's messages start with a code excerpt. */
const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).trim().split("\n").at(-1) ?? "";

const NOT_RECORDED = "the outcome could not be recorded";

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

/**
 * Records an outcome. Retries during a database outage, because a message whose outcome is not recorded is sent again.
 * Resolves to true once it is recorded or `signal` has aborted, and to false after a failure that is not an outage.
 */
async function retryUntilRecorded(
  record: () => Promise<unknown>,
  facts: object,
  { log, signal }: Deps,
): Promise<boolean> {
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

/** `expired`: the stay is over, or the form past SENT. `no recipient`: the form or its address is gone. */
type Outcome = "sent" | "expired" | "no recipient";

/** Sends the email about a form, unless it is too late. Rejects with MailRejected if the message was not accepted. */
export type Send = (claimed: Pick<Claimed, "notificationId" | "formId">) => Promise<Outcome>;

export function makeSender(services: Services, mailer: Mailer, log: Log): Send {
  const { from, formUrlTemplate } = mailer;
  return async ({ notificationId, formId }) => {
    const [stored] = await services.db.query<StoredForm>("form-to-notify", READ, [formId, notificationId]);
    if (!stored?.guestEmail) {
      log.info({ formId }, "notification dropped: the form or its address no longer exists");
      return "no recipient";
    }
    const { guestEmail, isExpired, ...form } = stored;
    if (isExpired) {
      log.info({ formId }, "notification expired: the stay is over or the form is past SENT");
      return "expired";
    }
    const to = open(services.keyring.email, guestEmail, formId);
    await mailer.send(compose({ ...form, formId, to, from, formUrlTemplate }), to);
    log.info({ formId, to: maskEmail(to) }, mailer.isPrinter ? "notification printed" : "notification sent");
    return "sent";
  };
}

const READ = `
  SELECT f.public_id AS "publicId", f.guest_email AS "guestEmail", f.check_in_date AS "checkInDate",
    f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", ${NEEDS_NO_INVITATION} AS "isExpired",
    (SELECT n.id::text FROM notifications n WHERE n.id = $2::bigint AND n.created_at > f.created_at) AS "repeatId",
    json_build_object('title', l.title, 'address', l.address, 'city', l.city, 'country', l.country,
      'timezone', l.timezone) AS listing
  FROM forms f JOIN listings l ON l.id = f.listing_id
  WHERE f.id = $1::uuid`;

type StoredForm = Omit<Notice, "formId" | "to" | "from" | "formUrlTemplate"> & {
  guestEmail: Uint8Array | null;
  isExpired: boolean;
};
