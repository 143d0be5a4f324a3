import { describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Delivery } from "../../server/webhooks/schema.js";
import { asOperator, catchErrorCode, catchRejectedFields } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { deliveryQueue, setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What happens to endpoints, deliveries and emails at the same time as a change, an attempt, or another call.

const core = await openWebhookCore();
const { services, owner, operator, sql, holdLock, waitForBlocked, runBehind } = core;
const { webhooks, addEndpoint, deliveriesOf, makeDue } = core;

const URL = "http://127.0.0.1:9/hook";
const { userId, listingId } = owner;

describe("a call that lets an endpoint receive more misses no change: it returns when those under way are visible", async () => {
  const { id: otherListingId } = await owner.addListing({ allowPets: true });

  /** Changes of a form on the owner's listing, and the listing that each locks last. */
  const CHANGES: [string, (form: FormV1) => Promise<unknown>, string][] = [
    ["create", () => owner.addForm(), listingId],
    ["update", (form) => owner.forms.update({ ...stayOf(form), numberOfGuests: 3 }), listingId],
    ["move", (form) => owner.forms.update({ ...stayOf(form), listingId: otherListingId }), otherListingId],
    ["setStatus", ({ id }) => owner.forms.setStatus({ id, status: "COMPLETED" }), listingId],
    ["setParty", ({ id }) => owner.forms.setParty({ id, numberOfVehicles: 0 }), listingId],
  ];

  const stayOf = ({ id, checkInDate, checkOutDate }: FormV1) => ({
    id,
    listingId,
    checkInDate: checkInDate ?? "",
    checkOutDate: checkOutDate ?? "",
    numberOfGuests: 2,
  });

  let reads = 0;
  const watched: typeof services.db.query = (name, ...statement) => {
    if (name === "in-flight-writes") reads += 1;
    return services.db.query(name, ...statement);
  };
  const { webhooks: endpoints } = asOperator({ ...services, db: { ...services.db, query: watched } });

  const countChanges = async () =>
    (await sql("SELECT count(*)::int FROM audit_entries WHERE action LIKE 'form.%'"))[0].count;

  /** Makes the change, holds it up with the lock, and makes the call. Returns the changes that are visible when the call returns. */
  async function callDuring(change: () => Promise<unknown>, lock: Parameters<typeof holdLock>, call: () => unknown) {
    const held = await holdLock(...lock);
    const changing = change();
    await waitForBlocked(1);
    reads = 0;
    let visible: number | undefined;
    const calling = (async () => {
      await call();
      visible = await countChanges();
    })();
    // It has returned, or it waits for the change.
    await expect.poll(() => reads > 1 || visible !== undefined, { interval: 5 }).toBe(true);
    await held.commit();
    await Promise.all([changing, calling]);
    return visible;
  }

  test.each(CHANGES)("webhooks.create, during %s that has not seen the endpoint", async (_, change, lockedLast) => {
    const form = await owner.addForm();
    const lock = "SELECT FROM listings WHERE id = $1 FOR UPDATE";
    const create = () => endpoints.create({ userId, url: URL });
    expect(await callDuring(() => change(form), [lock, [lockedLast]], create)).toBe(2);
  });

  const all = { userId, url: URL };
  const CALLS: [string, () => Promise<() => Promise<unknown>>][] = [
    ["create", async () => () => endpoints.create(all)],
    [
      "enable",
      async () => {
        const { id } = await webhooks.create(all);
        await webhooks.disable({ id });
        return () => endpoints.enable({ id });
      },
    ],
    [
      "update of events",
      async () => {
        const { id } = await webhooks.create({ ...all, events: ["form.moved"] });
        return () => endpoints.update({ id, events: [] });
      },
    ],
    [
      "update of listingIds",
      async () => {
        const { id } = await webhooks.create({ ...all, listingIds: [(await owner.addListing()).id] });
        return () => endpoints.update({ id, listingIds: [] });
      },
    ],
  ];

  test.each(
    CALLS.flatMap(([call, prepare]) => CHANGES.map(([name, change]) => [call, name, prepare, change] as const)),
  )("webhooks.%s, during %s that has recorded its event", async (_call, _name, prepare, change) => {
    // Holds up a change after it has read the endpoints.
    await sql(`
      CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END';
      CREATE TRIGGER hold_up AFTER INSERT ON audit_entries FOR EACH ROW
        WHEN (NEW.action LIKE 'form.%') EXECUTE FUNCTION hold_up()`);
    try {
      const form = await owner.addForm();
      const call = await prepare();
      const visible = await callDuring(() => change(form), ["SELECT pg_advisory_xact_lock(4711)"], call);
      expect(visible).toBe(2);
    } finally {
      await sql("DROP FUNCTION hold_up CASCADE");
    }
  });
});

describe("webhooks.redeliver", () => {
  test("sends one delivery, or those of a time range, once more with the same webhook-id and the current form", async () => {
    const receiver = await openReceiver();
    const { id } = await addEndpoint(receiver.url, receiver);
    const forms = [await owner.addForm(), await owner.addForm(), await owner.addForm()];
    await startTestWorker(services);
    await expect.poll(async () => (await deliveriesOf(id)).map(({ state }) => state)).toEqual(Array(3).fill("sent"));
    const [first, second, third] = (await deliveriesOf(id)) as [Delivery, Delivery, Delivery];
    await operator.forms.setParty({ id: forms[0]?.id ?? "", numberOfPets: 2 });
    await expect.poll(() => receiver.received.length).toBe(4);
    expect(await webhooks.redeliver({ endpointId: id, id: first.id })).toEqual({ redelivered: 1 });
    await expect.poll(() => receiver.received.length).toBe(5);
    const last = receiver.received[4];
    expect(last?.id).toBe(first.id);
    expect(last?.event).toMatchObject({ type: "form.created", data: { form: { numberOfPets: 2 } } });
    const range = { endpointId: id, since: second.createdAt, until: third.createdAt };
    expect(await webhooks.redeliver(range)).toEqual({ redelivered: 1 });
    await expect.poll(() => receiver.received[5]?.id).toBe(second.id);
    expect(await webhooks.redeliver({ endpointId: id, failed: true })).toEqual({ redelivered: 0 });
    const unknown = { endpointId: id, id: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa" };
    expect(await catchRejectedFields(webhooks.redeliver(unknown))).toEqual(["id"]);
    expect(await catchErrorCode(webhooks.redeliver({ endpointId: id }))).toBe("VALIDATION_ERROR");
  });

  const states = () => sql("SELECT state, attempts FROM webhook_deliveries ORDER BY id");

  test("twice at once sends each delivery again once", async () => {
    const { id: endpointId } = await addEndpoint(URL);
    await addDeliveries(sql, endpointId, 20);
    await sql(setState("webhook_deliveries", "failed"));
    const lock = await holdLock("SELECT FROM webhook_deliveries FOR UPDATE");
    const calls = [1, 2].map(() => webhooks.redeliver({ endpointId, failed: true }));
    await waitForBlocked(2);
    await lock.commit();
    const redelivered = (await Promise.all(calls)).map((call) => call.redelivered);
    expect(redelivered.sort((one, other) => one - other)).toEqual([0, 20]);
  });

  test("sends what another call with fewer deliveries leaves, also if that has taken a whole batch", async () => {
    const { id: endpointId } = await addEndpoint(URL);
    await addDeliveries(sql, endpointId, 1_001, "now() - interval '1 hour' + i * interval '1 ms'");
    await sql(setState("webhook_deliveries", "failed"));
    const last = "id = (SELECT max(id) FROM webhook_deliveries)";
    const other: [string] = [setState("webhook_deliveries", "waiting", `NOT ${last}`)];
    const redeliver = () => webhooks.redeliver({ endpointId, failed: true });
    expect(await runBehind(other, redeliver)).toEqual({ redelivered: 1 });
    expect(await sql("SELECT DISTINCT state FROM webhook_deliveries")).toEqual([{ state: "waiting" }]);
  });

  test("resets nothing that is being sent, also if its attempt begins at the same moment", async () => {
    const { id: endpointId } = await addEndpoint(URL);
    await addDeliveries(sql, endpointId, 1);
    await sql(setState("webhook_deliveries", "retrying"));
    await sql("UPDATE webhook_deliveries SET attempts = 3");
    const claim: [string] = ["UPDATE webhook_deliveries SET state = 'running', attempts = 4, next_attempt_at = NULL"];
    const [delivery] = (await webhooks.deliveries({ endpointId })).items;
    const redeliver = () => catchRejectedFields(webhooks.redeliver({ endpointId, id: delivery?.id ?? "" }));
    expect(await runBehind(claim, redeliver)).toEqual(["id"]);
    expect(await redeliver()).toEqual(["id"]);
    expect(await webhooks.redeliver({ endpointId, failed: true })).toEqual({ redelivered: 0 });
    expect(await states()).toEqual([{ state: "running", attempts: 4 }]);
  });

  test("is not lost if a worker claims the same delivery: the claim skips it, and it is sent once, afterwards", async () => {
    const { id } = await addEndpoint(URL);
    await addDeliveries(sql, id, 1);
    await sql(setState("webhook_deliveries", "retrying"));
    const queue = deliveryQueue(services, "worker");
    // The audit entry is the last that it writes.
    const lock = await holdLock("LOCK TABLE audit_entries IN EXCLUSIVE MODE");
    const redelivering = webhooks.redeliver({ endpointId: id, failed: true });
    await waitForBlocked(1);
    expect(await queue.claim()).toBeUndefined();
    await lock.commit();
    expect(await redelivering).toEqual({ redelivered: 1 });
    expect(await queue.claim()).toMatchObject({ attempts: 1 });
    expect(await queue.claim()).toBeUndefined();
  });
});

/** Makes an attempt of everything that is due. */
async function sendAll(): Promise<void> {
  const queue = deliveryQueue(services, "worker");
  await makeDue();
  for (let row = await queue.claim(); row; row = await queue.claim()) {
    await queue.attempt(row);
    await sql("UPDATE webhook_endpoints SET failing_since = NULL, paused_until = NULL");
  }
}

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
