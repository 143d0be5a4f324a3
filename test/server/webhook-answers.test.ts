import { expect, test } from "vitest";
import { deliveryQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

const { services, owner, operator, sql, addEndpoint, deliveriesOf, makeDue } = await openWebhookCore();

/** Makes an attempt of everything that is due. */
async function sendAll(): Promise<void> {
  const queue = deliveryQueue(services, "worker");
  await makeDue();
  for (let row = await queue.claim(); row; row = await queue.claim()) {
    await queue.attempt(row);
    await sql("UPDATE webhook_endpoints SET failing_since = NULL, paused_until = NULL");
  }
}

test("the body of an answer is stored for a failure only, at most 256 bytes, and is null after a success", async () => {
  const receiver = await openReceiver((response) => response.writeHead(500).end("ä".repeat(1_000)));
  const { id } = await addEndpoint(receiver.url);
  await owner.addForm();
  await sendAll();
  expect(await deliveriesOf(id)).toMatchObject([{ responseStatus: 500, responseBody: "ä".repeat(128) }]);
  receiver.respond = (response) => response.writeHead(200).end("accepted");
  await sendAll();
  expect(await deliveriesOf(id)).toMatchObject([{ state: "sent", responseStatus: 200, responseBody: null }]);
});

test("people.erase of a guest removes what receivers answered about its forms, and about no others", async () => {
  const receiver = await openReceiver((response) => response.writeHead(500).end("Jane Doe"));
  const endpoints = [await addEndpoint(receiver.url), await addEndpoint(receiver.url)];
  const email = "erased@example.com";
  const erased = [await owner.addForm({ guestEmail: email }), await owner.addForm({ guestEmail: email })];
  const kept = [await owner.addForm({ guestEmail: "other@example.com" }), await owner.addForm()];
  await sendAll();
  await operator.people.erase({ email });
  const ids = (forms: { id: string }[]) => forms.map(({ id }) => id).sort();
  for (const endpoint of endpoints) {
    const deliveries = await deliveriesOf(endpoint.id);
    const withBody = (body: string | null) =>
      deliveries.flatMap(({ formId, responseBody }) => (formId && responseBody === body ? [{ id: formId }] : []));
    expect(ids(withBody(null))).toEqual(ids(erased));
    expect(ids(withBody("Jane Doe"))).toEqual(ids(kept));
  }
});

test("an answer to an attempt during which the guest's address is erased is not kept, nor is the one before", async () => {
  const receiver = await openReceiver((response) => response.writeHead(500).end("Jane Doe"));
  const { id } = await addEndpoint(receiver.url);
  const email = "erased@example.com";
  await owner.addForm({ guestEmail: email });
  await sendAll();
  expect(await deliveriesOf(id)).toMatchObject([{ state: "retrying", responseBody: "Jane Doe" }]);
  await makeDue();
  const queue = deliveryQueue(services, "worker");
  const row = (await queue.claim()) ?? expect.fail("nothing is due");
  // So the erasure changes no row that is being sent.
  expect(await deliveriesOf(id)).toMatchObject([{ state: "running", responseBody: null }]);
  await operator.people.erase({ email });
  await queue.attempt(row);
  expect(await deliveriesOf(id)).toMatchObject([{ state: "retrying", responseStatus: 500, responseBody: null }]);
});
