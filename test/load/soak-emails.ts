import { messageIdOf } from "../support/creates.js";
import type { ReceivedMessage } from "../support/mail-server.js";
import type { SentCreate } from "../support/traffic.js";
import type { InjectedFault } from "./soak-fault-injector.js";

/** A worker records the outcome within this time after the mail server accepted the email, unless Postgres is down. */
const RECORD_OUTCOME_MS = 5_000;
/** A worker reconnects to Postgres within this time. */
const RECONNECT_MS = 3_000;

/**
 * Checks that each form with a guest email got one email at that address, and that no other email arrived. An email may
 * be repeated if its worker was killed after the mail server accepted it and before the outcome was recorded.
 */
export function checkEmails(
  received: ReceivedMessage[],
  creates: SentCreate[],
  faults: InjectedFault[],
): { repeatedByKills: number; violations: string[] } {
  const violations: string[] = [];
  let repeatedByKills = 0;
  const arrived = new Map<string, ReceivedMessage[]>();
  for (const email of received) {
    const id = email.mail.messageId ?? "";
    arrived.set(id, [...(arrived.get(id) ?? []), email]);
  }
  for (const { form, body } of creates.filter((create) => create.body.guestEmail)) {
    const id = messageIdOf(form?.id ?? "");
    const emails = arrived.get(id) ?? [];
    arrived.delete(id);
    if (emails.length === 0) violations.push(`the email of the form ${form?.id} never arrived`);
    if (emails.some(({ to }) => to.join() !== body.guestEmail))
      violations.push(`the email of the form ${form?.id} went to another address`);
    for (const { at } of emails.slice(0, -1)) {
      if (wasWorkerKilled(at, faults)) repeatedByKills++;
      else violations.push(`the email of the form ${form?.id} arrived ${emails.length} times`);
    }
  }
  for (const id of arrived.keys()) violations.push(`an unexpected email arrived: ${id}`);
  return { repeatedByKills, violations };
}

/** Whether a worker was killed before it must have recorded the outcome of an email that was accepted at this time. */
const wasWorkerKilled = (at: number, faults: InjectedFault[]) =>
  faults.some(
    ({ kind, startedAt, endedAt }) =>
      kind === "worker killed" &&
      at < endedAt &&
      startedAt - at - downtimeMs(at, startedAt, faults) < RECORD_OUTCOME_MS,
  );

/** Milliseconds of this interval in which a worker could not reach Postgres. */
const downtimeMs = (from: number, to: number, faults: InjectedFault[]) =>
  faults
    .filter(({ kind }) => kind.includes("Postgres"))
    .map((fault) => Math.min(to, fault.endedAt + RECONNECT_MS) - Math.max(from, fault.startedAt))
    .reduce((sum, ms) => sum + Math.max(0, ms), 0);
