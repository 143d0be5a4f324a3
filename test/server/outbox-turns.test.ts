import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addDeliveries, addEmails } from "../support/outbox-backlog.js";
import { deliveryQueue, emailQueue, setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";

// Tenants take turns, and what somebody waits for goes before a backlog of the same tenant.

const { services, owner, operator, sql, makeOwner, makeUser, setRole, holdLock, webhooks, addEndpoint } =
  await openWebhookCore();

const BACKLOG = 10_000;
const URL = "http://127.0.0.1:9/hook";
const GUEST = { guestEmail: "guest@example.com" };

/** Claims `count` rows one by one, each after the one before was sent. Returns what `read` says of each. */
async function sendOneByOne<Row>(
  queue: { claim(): Promise<Row | undefined>; mark(row: Row, state: string): Promise<void> },
  count: number,
  read: (row: Row) => string,
): Promise<string[]> {
  const claimed: string[] = [];
  for (let turn = 0; turn < count; turn++) {
    const row = await queue.claim();
    if (!row) break;
    claimed.push(read(row));
    await queue.mark(row, "sent");
  }
  return claimed;
}

const tenantOf = ({ tenantId }: { tenantId: string }) => tenantId;
const idOf = ({ id }: { id: string }) => id;

/** Expects that each of `size` tenants is served once, in an order that repeats. */
function expectRotation(tenants: string[], size: number) {
  expect(new Set(tenants.slice(0, size)).size).toBe(size);
  expect(tenants).toEqual(tenants.map((_, turn) => tenants[turn % size]));
}

/** Expects that each of `size` tenants has as many of these rows as the others. */
function expectEqualShares(rows: { tenantId: string }[], size: number) {
  const tenants = rows.map(tenantOf).sort();
  const share = tenants.length / size;
  const firsts = tenants.filter((_, index) => index % share === 0);
  expect(new Set(firsts).size).toBe(size);
  expect(tenants).toEqual(firsts.flatMap((tenant) => Array(share).fill(tenant)));
}

describe("emails", () => {
  test("however many wait for a tenant, one of another that is added while one is sent is claimed next", async () => {
    const [busy, other] = [randomUUID(), randomUUID()];
    await addEmails(sql, busy, BACKLOG);
    const queue = emailQueue(services, "worker");
    expect(await sendOneByOne(queue, 5, tenantOf)).toEqual(Array(5).fill(busy));
    const first = (await queue.claim()) ?? expect.fail("nothing to claim");
    const [added] = await addEmails(sql, other, 1, "now() + interval '9 days'");
    await queue.mark(first, "sent");
    expect(await queue.claim()).toMatchObject({ id: added, tenantId: other });
  });

  test("of three tenants are claimed in strict rotation, one by one and several at once", async () => {
    for (const count of [BACKLOG, 100, 20]) await addEmails(sql, randomUUID(), count);
    const queue = emailQueue(services, "worker");
    expectRotation(await sendOneByOne(queue, 30, tenantOf), 3);
    expectEqualShares(await queue.claimSome(9), 3);
  });

  test("of a tenant with the least in flight are claimed first", async () => {
    const [one, other] = [randomUUID(), randomUUID()];
    await addEmails(sql, one, 10);
    const queue = emailQueue(services, "worker");
    const inFlight = await queue.claimSome(4);
    await addEmails(sql, other, 10);
    const next = await queue.claimSome(4, inFlight);
    expect(next.map(tenantOf)).toEqual(Array(4).fill(other));
  });

  test("belong to the first owner of the listing by the time at which the user was created, and without one to the listing", async () => {
    const [writer, reader, erased, first] = [await makeUser(), await makeUser(), await makeUser(), await makeUser()];
    const second = await makeOwner();
    const { listingId } = second;
    await setRole(listingId, writer.id, "WRITER");
    await setRole(listingId, reader.id, "READER");
    await setRole(listingId, erased.id, "OWNER");
    // As in the middle of an erasure, which then removes the memberships.
    await sql("UPDATE users SET email = id || '@erased.invalid' WHERE id = $1", erased.id);
    await setRole(listingId, first.id, "OWNER");
    await second.addForm(GUEST);
    const queue = emailQueue(services, "worker");
    expect(await queue.claim()).toMatchObject({ tenantId: first.id });
    const alone = await makeOwner();
    await setRole(alone.listingId, writer.id, "WRITER");
    await sql("UPDATE memberships SET role = 'WRITER' WHERE listing_id = $1", alone.listingId);
    await alone.addForm(GUEST);
    expect(await queue.claim()).toMatchObject({ tenantId: alone.listingId });
  });

  test("follow a form that is moved to another listing, and its check-in date", async () => {
    const other = await makeOwner();
    await setRole(other.listingId, owner.userId, "WRITER");
    const { id } = await owner.addForm({ ...GUEST, checkInDate: "2027-12-30T12:00:00Z" });
    const nearest = await other.addForm({ ...GUEST, checkInDate: "2027-12-29T12:00:00Z" });
    const moved = { listingId: other.listingId, numberOfGuests: 2, checkOutDate: nearest.checkOutDate ?? "" };
    await owner.forms.update({ id, ...moved, checkInDate: "2027-12-28T12:00:00Z" });
    const queue = emailQueue(services, "worker");
    const claimed = [await queue.claim(), await queue.claim()];
    expect(claimed.map((row) => row && [row.formId, row.tenantId])).toEqual([
      [id, other.userId],
      [nearest.id, other.userId],
    ]);
  });

  test("of a tenant go by the nearest stay: one that began less than a day ago counts as now, older ones come last", async () => {
    const tenant = randomUUID();
    const ids: Record<string, string> = {};
    for (const from of ["366 days", "-25 hours", "1 day", "-30 hours", "-23 hours", "2 hours"]) {
      const [id = ""] = await addEmails(sql, tenant, 1, `now() + interval '${from}'`);
      ids[id] = from;
    }
    const claimed = await sendOneByOne(emailQueue(services, "worker"), 6, ({ id }) => `${ids[id]}`);
    expect(claimed).toEqual(["-23 hours", "2 hours", "1 day", "366 days", "-25 hours", "-30 hours"]);
  });
});

describe("deliveries", () => {
  test("of an owner with 10,000 that wait for several endpoints delay those of another owner by one turn", async () => {
    const other = await makeOwner();
    for (let endpoints = 0; endpoints < 4; endpoints++)
      await addDeliveries(sql, (await addEndpoint(URL)).id, BACKLOG / 4);
    const { id } = await webhooks.create({ userId: other.userId, url: URL });
    const queue = deliveryQueue(services, "worker");
    expect(await sendOneByOne(queue, 5, tenantOf)).toEqual(Array(5).fill(owner.userId));
    const first = (await queue.claim()) ?? expect.fail("nothing to claim");
    const [added] = await addDeliveries(sql, id, 1, "now() - interval '1 s'");
    await queue.mark(first, "sent");
    expect(await queue.claim()).toMatchObject({ id: added, tenantId: other.userId });
  });

  test("take turns by the owners of their endpoints; two endpoints of one owner share its turn, and all of the operator", async () => {
    const other = await makeOwner();
    for (const userId of [owner.userId, owner.userId, other.userId, undefined, undefined, undefined])
      await addDeliveries(sql, (await webhooks.create({ url: URL, ...(userId && { userId }) })).id, 20);
    const queue = deliveryQueue(services, "worker");
    expectRotation(await sendOneByOne(queue, 30, tenantOf), 3);
    expectEqualShares(await queue.claimSome(6), 3);
  });
});

describe.each([
  ["emails", async () => addEmails(sql, owner.userId, 40), emailQueue],
  ["deliveries", async () => addDeliveries(sql, (await addEndpoint(URL)).id, 40), deliveryQueue],
] as const)("%s that two workers claim at once", (channel, fill, openQueue) => {
  const table = channel === "emails" ? "emails" : "webhook_deliveries";
  const MAX = 4;

  test("are claimed once each, and both workers get as many as they ask for", async () => {
    const queues = [openQueue(services, "one"), openQueue(services, "two")];
    await fill();
    const seen = new Set<string>();
    for (let round = 1; round <= 5; round++) {
      const claimed = await Promise.all(queues.map((queue) => queue.claimSome(MAX)));
      expect(claimed.map((rows) => rows.length)).toEqual([MAX, MAX]);
      for (const { id } of claimed.flat()) seen.add(id);
      expect(seen.size).toBe(round * 2 * MAX);
    }
  });

  test("are skipped while the other claim holds them, for the next of the same queue", async () => {
    const ids = await fill();
    const held = ids.slice(0, MAX);
    const lock = await holdLock(`SELECT FROM ${table} WHERE id = ANY($1::bigint[]) FOR UPDATE`, [held]);
    const claimed = await openQueue(services, "one").claimSome(MAX);
    await lock.rollback();
    expect(claimed).toHaveLength(MAX);
    expect(claimed.map(idOf).filter((id) => held.includes(id))).toEqual([]);
  });
});

describe("before a backlog of the same tenant goes", () => {
  test("an endpoint's test, and a delivery that is redelivered by its id", async () => {
    const { id: endpointId } = await addEndpoint(URL);
    await addDeliveries(sql, endpointId, 1);
    await sql(setState("webhook_deliveries", "failed"));
    await addDeliveries(sql, endpointId, BACKLOG, "now() - interval '1 hour'");
    const [delivery] = (await webhooks.deliveries({ endpointId, state: "failed" })).items;
    const tested = await webhooks.test({ id: endpointId });
    await webhooks.redeliver({ endpointId, id: delivery?.id ?? "" });
    const queue = deliveryQueue(services, "worker");
    const claimed = await sendOneByOne(queue, 3, ({ eventId }) => eventId);
    expect(claimed.slice(0, 2).sort()).toEqual([tested.id, delivery?.id].sort());
    expect([tested.id, delivery?.id]).not.toContain(claimed[2]);
  });

  test("an endpoint's test, also if the owner's other endpoints have backlogs", async () => {
    const endpoints = [];
    for (let count = 0; count < 20; count++) endpoints.push(await addEndpoint(URL));
    for (const { id } of endpoints) await addDeliveries(sql, id, 10);
    const tested = await webhooks.test({ id: endpoints[7]?.id ?? "" });
    const [claimed] = await deliveryQueue(services, "worker").claimSome(1);
    expect(claimed?.eventId).toBe(tested.id);
  });

  test("an invitation that is sent again, and an email that is retried by its id", async () => {
    const [sent, failed] = [await owner.addForm(GUEST), await owner.addForm(GUEST)];
    await sql(setState("emails", "sent", "form_id = $1"), sent.id);
    await sql(setState("emails", "failed", "form_id = $1"), failed.id);
    await addEmails(sql, owner.userId, BACKLOG);
    const [unsent] = (await operator.emails.list({ state: "failed" })).items;
    await operator.emails.send({ formId: sent.id });
    await operator.emails.retry({ id: unsent?.id ?? "" });
    const claimed = await sendOneByOne(emailQueue(services, "worker"), 3, ({ formId }) => `${formId}`);
    expect(claimed.slice(0, 2).sort()).toEqual([sent.id, failed.id].sort());
    expect(claimed[2]).toBe("null");
  });

  test("not what is redelivered or retried because it failed", async () => {
    const { id: endpointId } = await addEndpoint(URL);
    await addDeliveries(sql, endpointId, 3);
    await sql(setState("webhook_deliveries", "failed"));
    const waiting = await addDeliveries(sql, endpointId, 3);
    expect(await webhooks.redeliver({ endpointId, failed: true })).toEqual({ redelivered: 3 });
    const deliveries = await sendOneByOne(deliveryQueue(services, "worker"), 3, idOf);
    expect(deliveries.sort()).toEqual(waiting.sort());

    for (let count = 0; count < 3; count++) await owner.addForm(GUEST);
    await sql(setState("emails", "failed"));
    const nearer = await addEmails(sql, owner.userId, 3);
    expect(await operator.emails.retryFailed()).toEqual({ retried: 3 });
    expect((await sendOneByOne(emailQueue(services, "worker"), 3, idOf)).sort()).toEqual(nearer.sort());
  });
});
