import { setTimeout } from "node:timers/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { EVENT_TYPES } from "../../server/constants.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { fixedStay, uniqueStay } from "../support/stays.js";
import { openReceiver, type WebhookReceiver } from "../support/webhook-receiver.js";

const core = await openTestCore({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
const { services, operator, sql, makeOwner, asUser, setRole, holdLock, waitForBlocked } = core;

beforeEach(() => sql("TRUNCATE webhook_endpoints, webhook_deliveries"));

/** Adds an endpoint at the receiver. */
async function addEndpoint(receiver: WebhookReceiver, input: Partial<Parameters<typeof operator.webhooks.create>[0]>) {
  const endpoint = await operator.webhooks.create({ url: receiver.url, ...input });
  receiver.secrets.push(endpoint.secret);
  return endpoint;
}

/** The events that an endpoint hears of, oldest first. */
const eventsOf = async ({ id }: { id: string }) =>
  (await operator.webhooks.deliveries({ endpointId: id, limit: 100 })).items.map(({ event }) => event).reverse();

describe("an event", () => {
  test("of every kind is sent once per change, signed, with the current form and what has changed", async () => {
    const owner = await makeOwner();
    const receiver = await openReceiver();
    const { secret } = await addEndpoint(receiver, { userId: owner.userId });
    const second = await owner.addListing({ maxVehicles: 3, allowPets: true });
    await startTestWorker(services);
    const last = async (count: number) => {
      await expect.poll(() => receiver.received.length, { timeout: 5_000 }).toBe(count);
      return receiver.received.at(-1)?.event;
    };
    const body = uniqueStay(owner.listingId, { guestEmail: "guest@example.com" });
    const form = await owner.forms.create(body);
    const times = { timestamp: expect.stringMatching(/^20\d\d-.*Z$/), sentAt: expect.stringMatching(/Z$/) };
    expect(await last(1)).toEqual({ type: "form.created", ...times, data: { form } });
    expect(await owner.forms.create(body), "a replay").toEqual(form);

    const changes = { checkOutDate: "2032-01-01T10:00:00.000Z", guestEmail: "other@example.com" };
    const updated = await owner.forms.update({ id: form.id, ...body, ...changes });
    const fields = ["checkOutDate", "guestEmail"];
    expect(await last(2)).toEqual({ type: "form.updated", ...times, data: { form: updated, fields } });

    const moved = await owner.forms.update({ id: form.id, ...body, ...changes, listingId: second.id });
    const data = { form: moved, previousListingId: owner.listingId, fields: ["listingId"] };
    expect(await last(3)).toEqual({ type: "form.moved", ...times, data });

    const completed = await owner.forms.setStatus({ id: form.id, status: "COMPLETED" });
    const change = { form: completed, from: "SENT", to: "COMPLETED" };
    expect(await last(4)).toEqual({ type: "form.status_changed", ...times, data: change });
    await operator.forms.setStatus({ id: form.id, status: "COMPLETED" });

    const party = await owner.forms.setParty({ id: form.id, numberOfVehicles: 2 });
    const set = { form: party, fields: ["numberOfVehicles"] };
    expect(await last(5)).toEqual({ type: "form.party_changed", ...times, data: set });
    await owner.forms.setParty({ id: form.id, numberOfVehicles: 2 });

    const held = await operator.forms.setStatus({ id: form.id, status: "ON_HOLD", force: true });
    expect(held).toEqual({ ...party, status: "UNKNOWN", updatedAt: held.updatedAt });
    const unknown = { form: held, from: "COMPLETED", to: "UNKNOWN" };
    expect(await last(6)).toEqual({ type: "form.status_changed", ...times, data: unknown });

    const cancelled = await owner.forms.update({ id: form.id, ...body, cancelled: true });
    const end = { form: cancelled, from: "UNKNOWN" };
    expect(await last(7)).toEqual({ type: "form.cancelled", ...times, data: end });
    await owner.forms.update({ id: form.id, ...body, cancelled: true });
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(7);
    expect(new Set(receiver.types())).toEqual(new Set(EVENT_TYPES));
    expect(receiver.received.every(({ signedBy: [by] }) => by === secret)).toBe(true);
    expect(JSON.stringify(receiver.received)).not.toContain("@example.com");
    expect(receiver.errors).toEqual([]);
  });

  test("is recorded with its change or not at all", async () => {
    const owner = await makeOwner({ maxPeopleInListing: 4 });
    const endpoint = await addEndpoint(await openReceiver(), {});
    const { form } = await owner.create(fixedStay(owner.listingId), "key");
    await owner.create(fixedStay(owner.listingId), "key");
    const tooMany = fixedStay(owner.listingId, { numberOfGuests: 5 });
    expect(await catchErrorCode(owner.create(tooMany))).toBe("VALIDATION_ERROR");
    expect(await catchErrorCode(owner.forms.update({ id: form.id, ...tooMany }))).toBe("VALIDATION_ERROR");
    expect(await catchErrorCode(owner.create(fixedStay(owner.listingId, { numberOfGuests: 3 }), "key"))).toBe(
      "IDEMPOTENCY_KEY_REUSED",
    );
    await sql("ALTER TABLE webhook_deliveries ADD CONSTRAINT fails CHECK (event_type <> 'form.status_changed')");
    expect(await catchErrorCode(owner.forms.setStatus({ id: form.id, status: "COMPLETED" }))).toBe("INTERNAL_ERROR");
    await sql("ALTER TABLE webhook_deliveries DROP CONSTRAINT fails");
    expect(await owner.forms.get({ id: form.id })).toMatchObject({ status: "SENT" });
    expect(await eventsOf(endpoint)).toEqual(["form.created"]);
  });
});

test("the event of a change that waited for its form has a later timestamp than the change that it waited for", async () => {
  const owner = await makeOwner();
  const { id: endpointId } = await addEndpoint(await openReceiver(), { userId: owner.userId });
  const { id } = await owner.addForm();
  // The change that comes first, until it commits.
  const first = await holdLock("SELECT FROM forms WHERE id = $1 FOR UPDATE", [id]);
  const second = owner.forms.setStatus({ id, status: "COMPLETED" });
  await waitForBlocked(1);
  await setTimeout(5);
  const { rows } = await first.client.query("SELECT clock_timestamp() AS at");
  await setTimeout(5);
  await first.commit();
  await second;
  const [changed] = (await operator.webhooks.deliveries({ endpointId })).items;
  expect(changed).toMatchObject({ event: "form.status_changed" });
  expect(Date.parse(changed?.createdAt ?? "")).toBeGreaterThan(rows[0].at.getTime());
});

describe("an endpoint hears of", () => {
  test("the forms in its owner's scope, and the operator's of all", async () => {
    const [one, other] = [await makeOwner(), await makeOwner()];
    const reader = await makeOwner();
    await setRole(one.listingId, reader.userId, "READER");
    await setRole(one.listingId, other.userId, "WRITER");
    const receiver = await openReceiver();
    const endpointOf = ({ userId }: { userId: string }) => addEndpoint(receiver, { userId });
    const endpoints = [await endpointOf(one), await endpointOf(other), await endpointOf(reader)];
    const all = await addEndpoint(receiver, {});
    await one.addForm();
    expect(await Promise.all([...endpoints, all].map(eventsOf))).toEqual([
      ["form.created"],
      ["form.created"],
      [],
      ["form.created"],
    ]);
    expect(await sql("SELECT DISTINCT event_id FROM webhook_deliveries"), "all have the same webhook-id").toHaveLength(
      1,
    );
  });

  test("the types and listings that it wants, and of a move from or to one of these listings", async () => {
    const owner = await makeOwner();
    const [second, third] = [await owner.addListing(), await owner.addListing()];
    const receiver = await openReceiver();
    const { userId } = owner;
    const status = await addEndpoint(receiver, { userId, events: ["form.status_changed", "form.party_changed"] });
    const onSecond = await addEndpoint(receiver, { userId, listingIds: [second.id] });
    const moves = await addEndpoint(receiver, { events: ["form.moved"], listingIds: [second.id, third.id] });
    const body = uniqueStay(owner.listingId);
    const { id } = await owner.forms.create(body);
    await owner.forms.setStatus({ id, status: "COMPLETED" });
    await owner.forms.update({ id, ...body, listingId: second.id });
    await owner.forms.setParty({ id, numberOfPets: 1 });
    await owner.forms.update({ id, ...body, listingId: third.id });
    await owner.forms.update({ id, ...body, listingId: third.id, numberOfGuests: 1 });
    expect(await eventsOf(status)).toEqual(["form.status_changed", "form.party_changed"]);
    expect(await eventsOf(onSecond)).toEqual(["form.moved", "form.party_changed", "form.moved"]);
    expect(await eventsOf(moves)).toEqual(["form.moved", "form.moved"]);
  });

  test("nothing while it is disabled, and of what comes after it was enabled", async () => {
    const owner = await makeOwner();
    const { webhooks } = asUser(owner.userId);
    const endpoint = await addEndpoint(await openReceiver(), { userId: owner.userId });
    const { id } = endpoint;
    await owner.addForm();
    await webhooks.disable({ id });
    await owner.addForm();
    await webhooks.enable({ id });
    await owner.addForm();
    expect(await eventsOf(endpoint)).toHaveLength(2);
  });
});

test("a filter by listings does not reveal a listing that has left the scope of the endpoint's owner", async () => {
  const [owner, writer] = [await makeOwner(), await makeOwner()];
  for (const id of [owner.listingId, writer.listingId]) await setRole(id, writer.userId, "WRITER");
  await setRole(writer.listingId, owner.userId, "WRITER");
  const [hidden, visible] = [owner.listingId, writer.listingId];
  const filtered = await addEndpoint(await openReceiver(), { userId: writer.userId, listingIds: [hidden] });
  const all = await addEndpoint(await openReceiver(), { userId: writer.userId });
  const body = uniqueStay(hidden);
  const { id } = await owner.forms.create(body);
  await setRole(hidden, writer.userId, "NONE");
  await owner.forms.update({ id, ...body, listingId: visible });
  expect(await eventsOf(filtered)).toEqual(["form.created"]);
  expect(await eventsOf(all)).toEqual(["form.created", "form.moved"]);
});

test("a form moved out of the scope of an endpoint's owner is not sent, and ends as out_of_scope; moved back, it is", async () => {
  const [owner, other] = [await makeOwner(), await makeOwner()];
  await setRole(other.listingId, owner.userId, "WRITER");
  const receiver = await openReceiver();
  const endpoint = await addEndpoint(receiver, { userId: owner.userId });
  const body = uniqueStay(owner.listingId);
  const [gone, back] = [await owner.forms.create(body), await owner.forms.create(uniqueStay(owner.listingId))];
  for (const { id } of [gone, back]) await owner.forms.update({ id, ...body, listingId: other.listingId });
  await setRole(other.listingId, owner.userId, "NONE");
  await sql("UPDATE forms SET listing_id = $1 WHERE id = $2", owner.listingId, back.id);
  await startTestWorker(services);
  const states = async () => {
    const { items } = await operator.webhooks.deliveries({ endpointId: endpoint.id });
    return items.map(({ formId, event, state, attempts }) => [formId === back.id, event, state, attempts]).sort();
  };
  await expect.poll(states).toEqual([
    [false, "form.created", "out_of_scope", 0],
    [false, "form.moved", "out_of_scope", 0],
    [true, "form.created", "sent", 1],
    [true, "form.moved", "sent", 1],
  ]);
  expect(receiver.received.map(({ event: { data } }) => "form" in data && data.form.listingId)).toEqual([
    owner.listingId,
    owner.listingId,
  ]);
});

test("form.moved names the previous listing only if the endpoint's owner may see it", async () => {
  const [owner, other] = [await makeOwner(), await makeOwner()];
  await setRole(other.listingId, owner.userId, "WRITER");
  const [mine, theirs, all] = [await openReceiver(), await openReceiver(), await openReceiver()];
  await addEndpoint(mine, { userId: owner.userId });
  await addEndpoint(theirs, { userId: other.userId });
  await addEndpoint(all, { events: ["form.moved"] });
  const body = uniqueStay(owner.listingId);
  const { id } = await owner.forms.create(body);
  await owner.forms.update({ id, ...body, listingId: other.listingId });
  await startTestWorker(services);
  const previous = ({ received }: WebhookReceiver) =>
    received.flatMap(({ event }) => (event.type === "form.moved" ? [event.data.previousListingId] : []));
  await expect.poll(() => [mine, theirs, all].map(previous)).toEqual([[owner.listingId], [null], [owner.listingId]]);
});

test("a membership that ends between the event and its delivery ends the delivery as out_of_scope", async () => {
  const [owner, writer] = [await makeOwner(), await makeOwner()];
  await setRole(owner.listingId, writer.userId, "WRITER");
  const receiver = await openReceiver();
  const { id } = await addEndpoint(receiver, { userId: writer.userId });
  const form = await owner.addForm();
  await owner.forms.setStatus({ id: form.id, status: "COMPLETED" });
  await setRole(owner.listingId, writer.userId, "READER");
  await startTestWorker(services);
  const states = async () => (await operator.webhooks.deliveries({ endpointId: id })).items.map(({ state }) => state);
  await expect.poll(states).toEqual(["out_of_scope", "out_of_scope"]);
  expect(receiver.received).toEqual([]);
});
