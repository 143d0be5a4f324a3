import { messageIdOf, type ReceivedMessage } from "../support/mail-server.js";
import type { SentCreate } from "../support/traffic.js";
import type { ReceivedWebhook } from "../support/webhook-receiver.js";
import type { InjectedFault } from "./soak-fault-injector.js";

/** A worker records the outcome within this time after the mail server accepted the email, unless Postgres is down. */
const RECORD_OUTCOME_MS = 5_000;
/** A worker reconnects to Postgres within this time. */
const RECONNECT_MS = 3_000;

/**
 * Checks that each form with a guest email got one email at that address, and that no other email arrived. An email may
 * be repeated if its worker was killed after the mail server accepted it and before the outcome was recorded. Returns a line
 * per violation.
 */
export function checkEmails(received: ReceivedMessage[], creates: SentCreate[], faults: InjectedFault[]): string[] {
  const violations: string[] = [];
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
    if (!emails.slice(0, -1).every(({ at }) => wasWorkerKilled(at, faults)))
      violations.push(`the email of the form ${form?.id} arrived ${emails.length} times`);
  }
  for (const id of arrived.keys()) violations.push(`an unexpected email arrived: ${id}`);
  return violations;
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

/** Checks that an event of each form's creation has arrived, that all were signed, and that repeated ones have the same id. */
export function checkWebhooks(received: ReceivedWebhook[], creates: SentCreate[]): string[] {
  const violations: string[] = [];
  const created = new Map<string, Set<string>>();
  for (const { id, event, signedBy } of received) {
    if (signedBy.length !== 1) violations.push(`the webhook ${id} has a wrong signature`);
    if (event.type !== "form.created") continue;
    const formId = event.data.form.id;
    created.set(formId, (created.get(formId) ?? new Set()).add(id));
  }
  for (const { form } of creates) {
    const ids = created.get(form?.id ?? "");
    if (ids?.size !== 1) violations.push(`the form ${form?.id} has events with ${ids?.size ?? 0} ids`);
  }
  return violations;
}
