import { describe, expect, test } from "vitest";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What slow and failing endpoints do to themselves, and not to others.

const { services, owner, sql, makeOwner, holdLock, webhooks, addEndpoint, deliveriesOf, waitFor } =
  await openWebhookCore();

test("an endpoint that has failed everything for three days is disabled and its owner told; what waits fails, and is redelivered once it is enabled", async () => {
  const mailServer = await openMailServer();
  const receiver = await openReceiver((response) => response.writeHead(500).end());
  const { id } = await addEndpoint(receiver.url, receiver);
  const forms = [await owner.addForm(), await owner.addForm(), await owner.addForm()];
  await sql("UPDATE webhook_endpoints SET failing_since = now() - interval '3 days 1 minute', paused_until = now()");
  const env = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
  await startTestWorker(await openServicesWithMail(services, mailServer.url, env));
  await expect.poll(() => webhooks.get({ id })).toMatchObject({ enabled: false, disabledReason: "failing" });
  await expect.poll(() => mailServer.received.length).toBe(1);
  expect(mailServer.received[0]?.mail.text).toContain("because all attempts of three days have failed");
  const states = async () => (await deliveriesOf(id)).map(({ state, lastError }) => [state, lastError]);
  await expect.poll(states).toEqual(Array(3).fill(["failed", "the endpoint is disabled"]));
  const ids = (await deliveriesOf(id)).map((delivery) => delivery.id);
  receiver.respond = (response) => response.writeHead(204).end();
  receiver.received.length = 0;
  await webhooks.enable({ id });
  expect(await webhooks.redeliver({ endpointId: id, failed: true })).toEqual({ redelivered: 3 });
  await expect.poll(() => receiver.received.map((request) => request.id).sort()).toEqual(ids.sort());
  const sent = receiver.received.flatMap(({ event: { data } }) => ("form" in data ? [data.form.id] : []));
  expect(sent.sort()).toEqual(forms.map((form) => form.id).sort());
  expect(mailServer.received).toHaveLength(1);
});

describe("the failures of an endpoint", () => {
  const failing = async (id: string) => (await webhooks.get({ id })).failingSince;
  const failLongAgo = () =>
    sql(
      "UPDATE webhook_endpoints SET failing_since = now() - interval '4 days', paused_until = now() - interval '1 s'",
    );

  test("do not include those of the service", async () => {
    const receiver = await openReceiver();
    const { id } = await addEndpoint(receiver.url);
    const form = await owner.addForm();
    await owner.forms.setStatus({ id: form.id, status: "COMPLETED" });
    await sql("DELETE FROM audit_entries");
    await startTestWorker(services);
    await expect.poll(async () => (await deliveriesOf(id)).map(({ state }) => state)).toEqual(["sent", "failed"]);
    await sql("UPDATE webhook_endpoints SET secret = '\\x00'");
    await owner.addForm();
    await expect.poll(async () => (await deliveriesOf(id))[2]?.lastError).toBe("the service could not send it");
    expect(await failing(id)).toBeNull();
  });

  test("are forgotten with its URL, and a failure half a day after the last one begins a new outage", async () => {
    const receiver = await openReceiver((response) => response.writeHead(500).end());
    const { id } = await addEndpoint(receiver.url);
    await failLongAgo();
    await webhooks.update({ id, url: `${receiver.url}/new` });
    expect(await failing(id)).toBeNull();
    await failLongAgo();
    await sql("UPDATE webhook_endpoints SET paused_until = now() - interval '13 hours'");
    await owner.addForm();
    await startTestWorker(services);
    await waitFor(id, "retrying");
    expect(await webhooks.get({ id })).toMatchObject({ enabled: true });
    expect(Date.now() - Date.parse((await failing(id)) ?? "")).toBeLessThan(10_000);
  });

  test("of requests from before it had another URL, or was enabled, do not disable it", async () => {
    const held: (() => void)[] = [];
    const receiver = await openReceiver((response) => void held.push(() => response.writeHead(410).end()));
    const { id } = await addEndpoint(receiver.url);
    for (let count = 0; count < 3; count++) await owner.addForm();
    await startTestWorker(services);
    await expect.poll(() => held.length).toBe(3);
    const answerNext = async (count: number) => {
      held.shift()?.();
      await expect
        .poll(async () => (await deliveriesOf(id)).filter(({ state }) => state === "failed"))
        .toHaveLength(count);
      return webhooks.get({ id });
    };
    await webhooks.update({ id, url: `${receiver.url}/new` });
    expect(await answerNext(1)).toMatchObject({ enabled: true, failingSince: null });
    await webhooks.disable({ id });
    await webhooks.enable({ id });
    expect(await answerNext(2)).toMatchObject({ enabled: true });
    expect(await answerNext(3)).toMatchObject({ enabled: true });
    expect(await sql("SELECT FROM emails WHERE kind = 'endpoint_disabled'")).toEqual([]);
  });

  test("hold back its other deliveries for a while, at most a minute, or as long as Retry-After says", async () => {
    const receiver = await openReceiver((response) => response.writeHead(503, { "Retry-After": "100" }).end());
    const { id } = await addEndpoint(receiver.url);
    for (let count = 0; count < 6; count++) await owner.addForm();
    await startTestWorker(services);
    await expect.poll(async () => (await deliveriesOf(id)).filter(({ state }) => state === "retrying")).toHaveLength(4);
    await owner.addForm();
    const [row] = await sql(
      "SELECT extract(epoch FROM paused_until - now())::float8 AS seconds FROM webhook_endpoints",
    );
    expect(row.seconds).toBeGreaterThan(90);
    expect(receiver.received).toHaveLength(4);
    receiver.respond = (response) => response.writeHead(204).end();
    expect(await webhooks.redeliver({ endpointId: id, failed: true })).toEqual({ redelivered: 4 });
    await expect.poll(() => receiver.received.length).toBe(11);
    await expect
      .poll(async () => new Set((await deliveriesOf(id)).map(({ state }) => state)))
      .toEqual(new Set(["sent"]));
  });
});

test("an owner has at most 32 requests in flight, however many endpoints and deliveries", async () => {
  const held: (() => void)[] = [];
  const slow = await openReceiver((response) => void held.push(() => response.writeHead(204).end()));
  const other = await makeOwner();
  const fast = await openReceiver();
  for (let count = 0; count < 20; count++) await addEndpoint(slow.url);
  await webhooks.create({ userId: other.userId, url: fast.url });
  for (let count = 0; count < 4; count++) await owner.addForm();
  await startTestWorker(services);
  await expect.poll(() => held.length).toBe(32);
  await other.addForm();
  await expect.poll(() => fast.received.length).toBe(1);
  expect(held).toHaveLength(32);
  slow.respond = (response) => response.writeHead(204).end();
  for (const answer of held) answer();
  await expect.poll(() => slow.received.length).toBe(80);
});

test("changes succeed while an endpoint is deleted, and its deliveries end", async () => {
  const receiver = await openReceiver();
  const deleted = await addEndpoint(receiver.url);
  // Not committed until the create has.
  const lock = await holdLock("DELETE FROM webhook_endpoints WHERE id = $1", [deleted.id]);
  expect((await owner.addForm()).status).toBe("SENT");
  await lock.commit();
  const { id: left } = await addEndpoint(receiver.url);
  await owner.addForm();
  await sql("DELETE FROM webhook_endpoints WHERE id = $1", left);
  await startTestWorker(services);
  await expect
    .poll(() => sql("SELECT FROM webhook_deliveries WHERE endpoint_id = ANY($1)", [deleted.id, left]))
    .toEqual([]);
  expect(receiver.received).toEqual([]);
});

describe("a slow receiver", () => {
  test("gets at most four deliveries at a time and delays no other; one that fails gets one at a time", async () => {
    const releases: (() => void)[] = [];
    let status = 204;
    const slow = await openReceiver((response) => void releases.push(() => response.writeHead(status).end()));
    const fast = await openReceiver();
    const { id } = await addEndpoint(slow.url, slow);
    await addEndpoint(fast.url, fast);
    for (let count = 0; count < 20; count++) await owner.addForm();
    await startTestWorker(services);
    await expect.poll(() => fast.received.length).toBe(20);
    expect(releases).toHaveLength(4);
    const release = (count: number) => {
      for (const answer of releases.splice(0, count)) answer();
    };
    status = 500;
    release(1);
    await expect.poll(async () => (await webhooks.get({ id })).failingSince).not.toBeNull();
    release(2);
    await expect.poll(async () => (await deliveriesOf(id)).filter(({ state }) => state === "retrying").length).toBe(3);
    await owner.addForm();
    await expect.poll(() => fast.received.length).toBe(21);
    expect(releases).toHaveLength(1);
    status = 204;
    release(1);
    await expect.poll(() => releases.length).toBe(4);
    release(4);
    slow.respond = (response) => response.writeHead(204).end();
    expect(slow.errors).toEqual([]);
  });
});
