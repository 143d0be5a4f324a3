import { describe, expect, test } from "vitest";
import { expireEmails } from "../../server/emails/expiry.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { endBacklog, expireDeliveries } from "../../server/webhooks/expiry.js";
import { asOperator } from "../support/factories.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { deliveryQueue, setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// Everything that waits for an endpoint ends: when it is sent, is too old, is one of too many, or has no endpoint anymore.

const { services, owner, operator, sql, holdLock, openProcess, webhooks, addEndpoint, makeDue } =
  await openWebhookCore();

const URL = "http://127.0.0.1:9/hook";
const SILENT = { info() {} };
const MAX_BACKLOG = 50_000;
const DISABLED = "the endpoint is disabled";

const expire = () => expireDeliveries({ db: services.db, counts: new ActivityCounts() }, SILENT);

/** The number of deliveries in each state. */
const countStates = async () =>
  Object.fromEntries(
    (await sql("SELECT state, count(*)::int FROM webhook_deliveries GROUP BY 1")).map(({ state, count }) => [
      state,
      count,
    ]),
  );

/** A delivery that a change adds in a transaction that has not ended yet. */
const addUncommitted = (endpointId: string) =>
  holdLock(
    `INSERT INTO webhook_deliveries (endpoint_id, event_id, event_type, correlation_id)
     VALUES ($1, gen_random_uuid(), 'form.created', gen_random_uuid())`,
    [endpointId],
  );

test("of 50,010 that wait for an endpoint the 10 that were queued first expire, and none of 50,000; they are listed, redelivered, and sent with the same webhook-id", async () => {
  const receiver = await openReceiver();
  const { id: endpointId } = await addEndpoint(receiver.url, receiver);
  const { id: other } = await addEndpoint(URL);
  await addDeliveries(sql, other, 20, "now() - interval '2 days'");
  // The last one was queued first.
  const ids = await addDeliveries(sql, endpointId, MAX_BACKLOG + 10, "now() - i * interval '1 ms'");
  await expire();
  const first = await sql("SELECT id::text, event_id FROM webhook_deliveries WHERE state = 'expired' ORDER BY id");
  expect(first.map(({ id }) => id)).toEqual(ids.slice(-10));
  await expire();
  expect(await countStates()).toEqual({ waiting: MAX_BACKLOG + 20, expired: 10 });

  const { items } = await webhooks.deliveries({ endpointId, state: "expired", limit: 100 });
  const eventIds = first.map(({ event_id }) => event_id).sort();
  expect(items.map(({ id }) => id).sort()).toEqual(eventIds);
  const lastError = `more than ${MAX_BACKLOG} newer deliveries waited for the endpoint`;
  expect(items).toEqual(items.map((item) => ({ ...item, lastError, nextAttemptAt: null, deliveredAt: null })));

  await sql("DELETE FROM webhook_deliveries WHERE state <> 'expired'");
  expect(await webhooks.redeliver({ endpointId, id: items[0]?.id ?? "" })).toEqual({ redelivered: 1 });
  expect(await webhooks.redeliver({ endpointId, failed: true })).toEqual({ redelivered: 9 });
  await makeDue();
  const queue = deliveryQueue(services, "worker");
  for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
  expect(receiver.received.map(({ id }) => id).sort()).toEqual(eventIds);
  expect(await countStates()).toEqual({ sent: 10 });
});

test("two workers that expire the same 50,010 at the same time expire 10, not 20", async () => {
  const { id } = await addEndpoint(URL);
  await addDeliveries(sql, id, MAX_BACKLOG + 10, "now() - i * interval '1 ms'");
  // Both have read what is too many before either has expired it.
  let reads = 0;
  let readBoth = () => {};
  const both = new Promise<void>((resolve) => {
    readBoth = resolve;
  });
  const db = {
    ...services.db,
    async query(name: string, text: string, values: string[]) {
      const rows = await services.db.query(name, text, values);
      if (name === "find-excess" && ++reads === 2) readBoth();
      if (name === "find-excess") await both;
      return rows;
    },
  };
  const run = () => expireDeliveries({ db: db as never, counts: new ActivityCounts() }, SILENT);
  await Promise.all([run(), run()]);
  expect(await countStates()).toEqual({ waiting: MAX_BACKLOG, expired: 10 });
});

describe("a delivery that was queued 3 days ago", () => {
  const LONG_AGO = "now() - interval '3 days 1 minute'";
  const RECENTLY = "now() - interval '2 days 23 hours'";

  test.each(["waiting", "retrying"])("expires if it is %s, and not 2 days and 23 hours ago", async (state) => {
    const { id } = await addEndpoint(URL);
    const [old] = await addDeliveries(sql, id, 1, LONG_AGO);
    const [young] = await addDeliveries(sql, id, 1, RECENTLY);
    await sql(setState("webhook_deliveries", state));
    await sql("UPDATE webhook_deliveries SET last_error = 'HTTP 500'");
    await expire();
    expect(await sql("SELECT id::text, state, last_error FROM webhook_deliveries ORDER BY id")).toEqual([
      { id: old, state: "expired", last_error: "HTTP 500" },
      { id: young, state, last_error: "HTTP 500" },
    ]);
  });

  test("does not expire while it is being sent", async () => {
    const { id } = await addEndpoint(URL);
    await addDeliveries(sql, id, 1, LONG_AGO);
    await deliveryQueue(services, "worker").claim();
    await expire();
    expect(await countStates()).toEqual({ running: 1 });
  });

  test("waits for three days again once it is redelivered", async () => {
    const { id: endpointId } = await addEndpoint(URL);
    await addDeliveries(sql, endpointId, 1, LONG_AGO);
    await expire();
    expect(await webhooks.redeliver({ endpointId, failed: true })).toEqual({ redelivered: 1 });
    await expire();
    expect(await countStates()).toEqual({ waiting: 1 });
    await sql(`UPDATE webhook_deliveries SET queued_at = ${LONG_AGO}`);
    await expire();
    expect(await countStates()).toEqual({ expired: 1 });
  });
});

describe("what waits for an endpoint", () => {
  test("that is disabled has failed when the call returns, 12,000 deliveries, except one that is being sent", async () => {
    const [{ id }, { id: enabled }] = [await addEndpoint(URL), await addEndpoint(`${URL}/enabled`)];
    const queue = deliveryQueue(services, "worker");
    await addDeliveries(sql, id, 1);
    const sending = (await queue.claim()) ?? expect.fail("nothing to claim");
    await addDeliveries(sql, id, 12_000);
    await addDeliveries(sql, enabled, 5);
    await webhooks.disable({ id });
    expect(await countStates()).toEqual({ failed: 12_000, running: 1, waiting: 5 });
    const reasons = "SELECT DISTINCT last_error FROM webhook_deliveries WHERE state = 'failed'";
    expect(await sql(reasons)).toEqual([{ last_error: DISABLED }]);
    await queue.mark(sending, "sent");
    expect(await countStates()).toEqual({ failed: 12_000, sent: 1, waiting: 5 });
  });

  test("does not keep a call from disabling or deleting it if it cannot be ended now; the next run ends it", async () => {
    const [disabled, deleted] = [await addEndpoint(URL), await addEndpoint(URL)];
    for (const { id } of [disabled, deleted]) await addDeliveries(sql, id, 3);
    const { webhooks: impatient } = asOperator(await openProcess({ DATABASE_LOCK_TIMEOUT_MS: "100" }));
    const lock = await holdLock("LOCK TABLE webhook_deliveries IN ACCESS EXCLUSIVE MODE");
    expect(await impatient.disable({ id: disabled.id })).toMatchObject({ enabled: false });
    expect(await impatient.delete({ id: deleted.id })).toMatchObject({ id: deleted.id });
    await lock.rollback();
    expect(await countStates()).toEqual({ waiting: 6 });
    await expire();
    expect(await countStates()).toEqual({ failed: 3 });
  });

  test("that is enabled again before its backlog was ended is kept", async () => {
    const { id } = await addEndpoint(URL);
    await webhooks.disable({ id });
    await webhooks.enable({ id });
    await addDeliveries(sql, id, 3);
    await endBacklog(services.db, id);
    expect(await countStates()).toEqual({ waiting: 3 });
  });

  test("that is disabled because of its answer ends in the next run, although the statement for another endpoint fails", async () => {
    const [gone, other] = [await addEndpoint(URL), await addEndpoint(URL)];
    await addDeliveries(sql, gone.id, 3);
    await sql("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'gone'");
    await addDeliveries(sql, other.id, 3);
    const failing = {
      ...services.db,
      query: (name: string, text: string, values: string[]) =>
        name === "end-backlog" && values[0] === [gone.id, other.id].sort()[0]
          ? Promise.reject(new Error("statement timeout"))
          : services.db.query(name, text, values),
    };
    await expect(expireDeliveries({ db: failing as never, counts: new ActivityCounts() }, SILENT)).rejects.toThrow(
      "statement timeout",
    );
    expect(await countStates()).toEqual({ failed: 3, waiting: 3 });
    await expire();
    expect(await countStates()).toEqual({ failed: 6 });
  });

  test("and was added by a change that committed after it was disabled ends in the next run", async () => {
    const { id } = await addEndpoint(URL);
    const change = await addUncommitted(id);
    await webhooks.disable({ id });
    await change.commit();
    expect(await countStates()).toEqual({ waiting: 1 });
    await expire();
    expect(await sql("SELECT state, last_error FROM webhook_deliveries")).toEqual([
      { state: "failed", last_error: DISABLED },
    ]);
  });

  test("that is deleted is deleted, whatever its state; what a change adds after that, in the next run", async () => {
    const { id } = await addEndpoint(URL);
    await addDeliveries(sql, id, 1_500);
    for (const [index, state] of ["running", "retrying", "failed", "sent", "expired", "out_of_scope"].entries())
      await sql(setState("webhook_deliveries", state, `id % 7 = ${index}`));
    const change = await addUncommitted(id);
    await webhooks.delete({ id });
    await change.commit();
    expect(await countStates()).toEqual({ waiting: 1 });
    await expire();
    expect(await countStates()).toEqual({});
  });
});

test("an email to the owner of a disabled endpoint expires after three days without a mail server, not after 2 days and 23 hours, and is audited", async () => {
  const { id: endpointId } = await addEndpoint(URL);
  const add = async (age: string) =>
    (
      await sql(
        `INSERT INTO emails (kind, endpoint_id, tenant_id, check_in_date, created_at, correlation_id)
         SELECT 'endpoint_disabled', $1, $2, at, at, gen_random_uuid() FROM (SELECT now() - $3::interval) AS created (at)
         RETURNING id::text`,
        endpointId,
        owner.userId,
        age,
      )
    )[0].id;
  const [old, young] = [await add("3 days 1 minute"), await add("2 days 23 hours")];
  await expireEmails({ db: services.db, counts: new ActivityCounts() }, SILENT);
  const states = (await operator.emails.list({})).items.map(({ id, state }) => [id, state]);
  expect(Object.fromEntries(states)).toEqual({ [old]: "expired", [young]: "waiting" });
  const [entry] = await operator.audit.trail({ subjectId: endpointId });
  expect(entry).toMatchObject({ action: "email.expired", actor: "system", details: { emailId: old } });
});
