import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { openMailServer, openServicesWithMail, recipientsOf, startTestWorker } from "../support/mail-server.js";
import { emailQueue } from "../support/outbox-queue.js";
import { uniqueStay } from "../support/stays.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What is being sent about a form while it is cancelled.

const core = await openWebhookCore();
const { services, owner, operator, sql, addEndpoint, makeDue } = core;
const { listingId, forms } = owner;

async function create() {
  const stay = uniqueStay(listingId, { guestEmail: "guest@example.com" });
  const { id } = await forms.create(stay);
  return { id, stay, cancel: () => forms.update({ id, ...stay, cancelled: true }) };
}

const statesOf = async (formId: string) => (await operator.emails.list({ formId })).items.map(({ state }) => state);

describe("an invitation that is being sent while the form is cancelled", () => {
  test.each([
    ["is sent if it is accepted", "sent", "sent"],
    ["expires if it fails", "retrying", "expired"],
  ])("%s", async (_, outcome, state) => {
    const { id, cancel } = await create();
    const queue = emailQueue(services, randomUUID());
    const running = await queue.claim();
    if (!running) throw new Error("nothing to claim");
    await cancel();
    await queue.mark(running, outcome, outcome === "sent" ? null : "busy");
    await sql("UPDATE emails SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL");
    const mailServer = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(() => statesOf(id)).toEqual([state]);
    expect(recipientsOf(mailServer)).toEqual([]);
  });

  test("is sent at most once, whatever the order of claims, cancelling and corrections of the address", async () => {
    const mailServer = await openMailServer();
    const withMail = await openServicesWithMail(services, mailServer.url);
    const created = await Promise.all(Array.from({ length: 30 }, create));
    const correct = ({ id, stay }: (typeof created)[number]) =>
      forms.update({ id, ...stay, guestEmail: "corrected@example.com" }).catch(() => {});
    await Promise.all([
      startTestWorker(withMail),
      ...created.flatMap((one, index) => (index % 2 ? [one.cancel(), correct(one)] : [correct(one), one.cancel()])),
    ]);
    await expect.poll(async () => (await sql("SELECT FROM emails WHERE ended_at IS NULL")).length).toBe(0);
    expect(await sql("SELECT FROM forms WHERE status <> 'CANCELLED' OR guest_email IS NOT NULL")).toEqual([]);
    expect(recipientsOf(mailServer).length).toBeLessThanOrEqual(2 * created.length);
  });
});

describe("form.cancelled", () => {
  test("is the one event of a cancelling, with the new fields of the form, and what a receiver has answered about the form is erased", async () => {
    const receiver = await openReceiver();
    receiver.respond = (response) => response.writeHead(500).end("no such guest");
    await addEndpoint(receiver.url, receiver);
    const { id, stay, cancel } = await create();
    await startTestWorker(services);
    const stored = () => sql("SELECT response_body FROM webhook_deliveries WHERE response_body IS NOT NULL");
    await expect.poll(async () => (await stored()).length).toBe(1);
    const cancelled = await cancel();
    expect(await stored()).toEqual([]);
    receiver.respond = (response) => response.writeHead(204).end();
    await cancel();
    await makeDue();
    await expect.poll(async () => (await sql("SELECT FROM webhook_deliveries WHERE state = 'sent'")).length).toBe(2);
    expect(await sql("SELECT event_type FROM webhook_deliveries ORDER BY id")).toEqual([
      { event_type: "form.created" },
      { event_type: "form.cancelled" },
    ]);
    const { event } = receiver.received.find((one) => one.event.type === "form.cancelled") ?? {};
    expect(event?.data).toEqual({ form: cancelled, from: "SENT" });
    expect([cancelled.id, cancelled.numberOfGuests]).toEqual([id, stay.numberOfGuests]);
  });
});
