import { describe, expect, test } from "vitest";
import { attempt } from "../../server/outbox/attempt.js";
import { DeliveryFailed, type Post } from "../../server/webhooks/request.js";
import { startTestWorker } from "../support/mail-server.js";
import { deliveryQueue, emailQueue, setState } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What slow and failing endpoints do to themselves, and not to others.

const { services, owner, sql, makeOwner, holdLock, webhooks, addEndpoint, deliveriesOf } = await openWebhookCore();

const URL = "http://127.0.0.1/hook";

/** Answers every delivery with this status. */
const answering =
  (status: number): Post =>
  async () => {
    const answer = { status, body: "", durationMs: 1, retryAfterSeconds: null };
    if (status === 204) return answer;
    throw new DeliveryFailed(`answered ${status}`, { answer });
  };
/** Claims one delivery, and makes the attempt, which is answered with this status. Records nothing. */
async function attemptAnswered(status: number) {
  const queue = deliveryQueue(services, "worker", answering(status));
  const claimed = (await queue.claim()) ?? expect.fail("nothing is due");
  const outcome = await attempt(queue.channel, claimed, { info() {}, warn() {}, error() {} });
  return { outcome, record: (outcomes = [outcome]) => queue.channel.record(outcomes) };
}
/** Adds an endpoint with as many deliveries, which has been failing for `since`, the last time `pause` ago. */
async function addFailing(since: string, pause: string, deliveries = 1) {
  const { id } = await addEndpoint(URL);
  for (let count = 0; count < deliveries; count++) await owner.addForm();
  await sql(
    "UPDATE webhook_endpoints SET failing_since = now() - $1::interval, paused_until = now() - $2::interval",
    since,
    pause,
  );
  return id;
}

const readEndpoint = async () =>
  (await sql("SELECT failing_since, paused_until, disabled_at, disabled_reason FROM webhook_endpoints"))[0];

describe("the failures of an endpoint", () => {
  const failing = async (id: string) => (await webhooks.get({ id })).failingSince;

  test("do not include those of the service", async () => {
    const { id } = await addEndpoint(URL);
    await sql("UPDATE webhook_endpoints SET secret = '\\x00'");
    await owner.addForm();
    await (await attemptAnswered(204)).record();
    expect(await deliveriesOf(id)).toMatchObject([{ lastError: "the service could not send it" }]);
    expect(await failing(id)).toBeNull();
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

  test("do not include a late 410 from before it was enabled", async () => {
    const { id } = await addEndpoint(URL);
    await owner.addForm();
    const late = await attemptAnswered(410);
    await webhooks.disable({ id });
    await webhooks.enable({ id });
    await late.record();
    expect(await webhooks.get({ id })).toMatchObject({ enabled: true });
    expect(await sql("SELECT FROM emails WHERE kind = 'endpoint_disabled'")).toEqual([]);
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

test("a call of redeliver or test ends the pause of an endpoint that fails", async () => {
  const endpointId = await addFailing("1 hour", "-1 minute");
  const queue = deliveryQueue(services, "worker");
  const [row] = await sql("UPDATE webhook_deliveries SET state = 'retrying' RETURNING event_id AS id");
  for (const call of [() => webhooks.redeliver({ endpointId, id: row.id }), () => webhooks.test({ id: endpointId })]) {
    await sql("UPDATE webhook_endpoints SET paused_until = now() + interval '1 minute'");
    expect(await queue.claim()).toBeUndefined();
    await call();
    expect(await queue.claim()).toBeDefined();
    await sql(setState("webhook_deliveries", "sent"));
  }
});

test("an endpoint that fails gets no delivery before the end of its pause, then one at a time, and four once it accepts them", async () => {
  await addFailing("1 hour", "-1 minute", 6);
  const queue = deliveryQueue(services, "worker", answering(204));
  expect(await queue.claimSome(10)).toEqual([]);
  await sql("UPDATE webhook_endpoints SET paused_until = now() - interval '1 ms'");
  const [only, ...others] = await queue.claimSome(10);
  if (!only) expect.fail("nothing was claimed");
  expect(others).toEqual([]);
  expect(await queue.claimSome(10, [only])).toEqual([]);
  await queue.attempt(only);
  expect(await queue.claimSome(10)).toHaveLength(4);
});

describe("the email about an endpoint that was disabled", () => {
  /** The texts of the emails that a worker sends now. */
  async function sendEmails(): Promise<string[]> {
    const texts: string[] = [];
    const queue = emailQueue(services, "worker", {
      async send({ text }) {
        texts.push(String(text));
        return null;
      },
    });
    for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
    return texts;
  }

  const GONE = "because it answered 410 Gone";
  const FAILING = "because all attempts of three days have failed";

  test.each([
    ["is sent, once", async () => {}, [GONE]],
    ["is not sent if it was enabled since", (id: string) => webhooks.enable({ id }), []],
    [
      "is not sent if it was enabled since, also if somebody has disabled it again",
      async (id: string) => {
        await webhooks.enable({ id });
        await webhooks.disable({ id });
      },
      [],
    ],
    [
      "is not sent if it was enabled since, also if it was disabled again for another reason, about which there is one",
      async (id: string) => {
        await webhooks.enable({ id });
        await owner.addForm();
        await sql(
          "UPDATE webhook_endpoints SET failing_since = now() - interval '4 days', paused_until = now() - interval '1 ms'",
        );
        await (await attemptAnswered(500)).record();
      },
      [FAILING],
    ],
  ])("%s", async (_, change, sent) => {
    const { id } = await addEndpoint(URL);
    await owner.addForm();
    await (await attemptAnswered(410)).record();
    expect(await webhooks.get({ id })).toMatchObject({ disabledReason: "gone" });
    await change(id);
    expect(await sendEmails()).toEqual(sent.map((reason) => expect.stringContaining(reason)));
    expect(await sql("SELECT FROM emails WHERE state <> 'sent'")).toEqual([]);
  });
});
