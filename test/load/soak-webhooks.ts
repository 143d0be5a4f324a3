import type { SentCreate } from "../support/traffic.js";
import type { ReceivedWebhook } from "../support/webhook-receiver.js";

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
