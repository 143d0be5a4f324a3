import { describe, expect, test } from "vitest";
import { startTestWorker } from "../support/mail-server.js";
import { deliveryQueue, emailQueue } from "../support/outbox-queue.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { openFailingEndpoints, URL } from "./failing-endpoints.js";

const { services, owner, sql, makeOwner, webhooks, addEndpoint, deliveriesOf, answering, attemptAnswered, addFailing } =
  await openFailingEndpoints();

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
