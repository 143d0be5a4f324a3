import { describe, expect, test } from "vitest";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { openFailingEndpoints, URL } from "./failing-endpoints.js";

const { services, owner, sql, holdLock, webhooks, addEndpoint, deliveriesOf, waitFor, attemptAnswered, addFailing } =
  await openFailingEndpoints();

const readEndpoint = async () =>
  (await sql("SELECT failing_since, paused_until, disabled_at, disabled_reason FROM webhook_endpoints"))[0];

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

  test.each([
    ["2 days 23 hours", true],
    ["3 days 1 minute", false],
  ])("that have gone on for %s leave it enabled: %s", async (since, enabled) => {
    const id = await addFailing(since, "1 second");
    await (await attemptAnswered(500)).record();
    expect(await webhooks.get({ id })).toMatchObject({ enabled, disabledReason: enabled ? null : "failing" });
  });

  test.each([
    ["11 hours 59 minutes", "are the same outage"],
    ["12 hours 1 minute", "begin a new outage"],
  ])("that come %s after the pause of the last one %s", async (gap, outage) => {
    await addFailing("2 days", gap);
    const { failing_since: before } = await readEndpoint();
    await (await attemptAnswered(500)).record();
    const { failing_since: after } = await readEndpoint();
    if (outage === "are the same outage") expect(after).toEqual(before);
    else expect(Date.now() - after.getTime()).toBeLessThan(10_000);
  });

  test.each([
    ["success", 204],
    ["failure", 500],
    ["410", 410],
  ])("are not changed by a late %s of its old URL", async (_, status) => {
    const { id } = await addEndpoint(`${URL}/old`);
    await owner.addForm();
    const late = await attemptAnswered(status);
    await webhooks.update({ id, url: `${URL}/new` });
    await sql("UPDATE webhook_endpoints SET failing_since = now() - interval '4 days', paused_until = now()");
    const before = await readEndpoint();
    await late.record();
    expect(await readEndpoint()).toEqual(before);
    expect(await deliveriesOf(id)).toMatchObject([{ responseStatus: status }]);
  });

  test.each([
    ["a failure, then a success", [500, 204], false],
    ["a success, then a failure", [204, 500], true],
  ])("are decided by the later of two outcomes that are recorded together: %s", async (_, statuses, isFailing) => {
    const { id } = await addEndpoint(URL);
    for (const _status of statuses) await owner.addForm();
    const attempts = [];
    for (const status of statuses) attempts.push(await attemptAnswered(status));
    await attempts[0]?.record(attempts.map(({ outcome }) => outcome));
    expect((await failing(id)) !== null).toBe(isFailing);
    expect((await deliveriesOf(id)).map(({ responseStatus }) => responseStatus)).toEqual(statuses);
  });

  test("are decided by outcomes of its present URL, also if one of the old URL is recorded after it in the same batch", async () => {
    const { id } = await addEndpoint(`${URL}/old`);
    for (let count = 0; count < 2; count++) await owner.addForm();
    const late = await attemptAnswered(204);
    await webhooks.update({ id, url: `${URL}/new` });
    const gone = await attemptAnswered(410);
    await gone.record([gone.outcome, late.outcome]);
    expect(await webhooks.get({ id })).toMatchObject({ enabled: false, disabledReason: "gone" });
  });

  test("include a 410 that is recorded together with a later success", async () => {
    const { id } = await addEndpoint(URL);
    for (let count = 0; count < 2; count++) await owner.addForm();
    const [gone, accepted] = [await attemptAnswered(410), await attemptAnswered(204)];
    await gone.record([gone.outcome, accepted.outcome]);
    expect(await webhooks.get({ id })).toMatchObject({ enabled: false, disabledReason: "gone" });
  });

  test("wait for nobody who is changing it: the outcome of the delivery is recorded at once", async () => {
    const { id } = await addEndpoint(URL);
    for (let count = 0; count < 2; count++) await owner.addForm();
    const [failed, sent] = [await attemptAnswered(500), await attemptAnswered(204)];
    const lock = await holdLock("SELECT FROM webhook_endpoints FOR UPDATE");
    for (const { record } of [failed, sent]) await record();
    expect((await deliveriesOf(id)).map(({ state }) => state)).toEqual(["retrying", "sent"]);
    await lock.commit();
    expect(await failing(id)).toBeNull();
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

  test("pause it with jitter: up to 20% shorter than the pause of the delivery, up to 20% longer than its Retry-After", async () => {
    const pauses = async (retryAfterSeconds: number, attempts: number) => {
      const id = await addFailing("1 minute", "1 s");
      await sql("UPDATE webhook_deliveries SET attempts = $1", attempts - 1);
      const { outcome, record } = await attemptAnswered(503);
      const seconds: number[] = [];
      for (let count = 0; count < 20; count++) {
        await record([{ ...outcome, pauseSeconds: retryAfterSeconds }]);
        const PAUSE =
          "SELECT extract(epoch FROM paused_until - now())::float8 AS seconds FROM webhook_endpoints WHERE id = $1";
        seconds.push((await sql(PAUSE, id))[0].seconds);
      }
      await webhooks.delete({ id });
      return { shortest: Math.min(...seconds), longest: Math.max(...seconds) };
    };
    const own = await pauses(0, 9);
    expect(own.shortest).toBeGreaterThan(46);
    expect(own.longest).toBeLessThanOrEqual(60);
    expect(own.longest - own.shortest).toBeGreaterThan(2);
    const asked = await pauses(1_000, 9);
    expect(asked.shortest).toBeGreaterThan(999);
    expect(asked.longest).toBeLessThanOrEqual(1_200);
    expect(asked.longest - asked.shortest).toBeGreaterThan(30);
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
