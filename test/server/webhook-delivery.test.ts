import { readFileSync } from "node:fs";
import { createServer as createHttpsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { Delivery } from "../../server/webhooks/schema.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { freePort, listenLocally } from "../support/network.js";
import { deliveryQueue } from "../support/outbox-queue.js";
import { fixedStay } from "../support/stays.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

const core = await openWebhookCore();
const { services, owner, operator, sql } = core;
const { webhooks, addEndpoint, deliveriesOf, waitFor, makeDue } = core;

const secondsUntil = ({ nextAttemptAt }: Delivery) => (Date.parse(nextAttemptAt ?? "") - Date.now()) / 1000;

test("a delivery that fails is retried with growing pauses and the same webhook-id until it succeeds", async () => {
  const receiver = await openReceiver((response) => response.writeHead(503).end("maintenance of ana@example.com\0"));
  const { id } = await addEndpoint(receiver.url, receiver);
  await owner.addForm();
  const lines = await startTestWorker(services);
  const failed = await waitFor(id, "retrying");
  expect(failed).toMatchObject({
    id: receiver.received[0]?.id,
    event: "form.created",
    attempts: 1,
    responseStatus: 503,
    responseBody: "maintenance of a***@e***.com ",
    durationMs: expect.any(Number),
    lastError: "answered 503",
    deliveredAt: null,
  });
  expect(await webhooks.get({ id })).toMatchObject({ failingSince: expect.any(String) });
  for (let attempt = 2; attempt <= 5; attempt++) {
    await makeDue();
    await expect.poll(async () => (await deliveriesOf(id))[0]).toMatchObject({ state: "retrying", attempts: attempt });
    const growth = secondsUntil(await waitFor(id, "retrying")) / Math.exp(attempt);
    // Jitter of 20%, and the time since.
    expect(growth).toBeGreaterThan(0.7);
    expect(growth).toBeLessThanOrEqual(1.2);
  }
  receiver.respond = (response) => response.writeHead(200).end("thanks");
  await makeDue();
  const sent = { state: "sent", attempts: 6, responseStatus: 200, responseBody: null, lastError: null };
  expect(await waitFor(id, "sent")).toMatchObject({ ...sent, nextAttemptAt: null, deliveredAt: expect.any(String) });
  expect(new Set(receiver.received.map((request) => request.id)).size).toBe(1);
  expect(receiver.received).toHaveLength(6);
  expect(await webhooks.get({ id })).toMatchObject({ failingSince: null, enabled: true });
  expect(JSON.stringify(lines)).not.toMatch(/whsec_|127\.0\.0|example/);
  expect(new Set(lines.map(({ level }) => level))).toEqual(new Set(["info"]));
});

test("deliveries are retried for three days, then given up", async () => {
  const receiver = await openReceiver((response) => response.writeHead(500).end());
  const { id } = await addEndpoint(receiver.url);
  await owner.addForm();
  const queue = deliveryQueue(services, "worker");
  let seconds = 0;
  for (;;) {
    await queue.attempt((await queue.claim()) ?? expect.fail("nothing is due"));
    const [delivery] = await deliveriesOf(id);
    if (delivery?.state === "failed") break;
    const pause = secondsUntil(delivery as Delivery);
    seconds += pause;
    await sql("UPDATE webhook_deliveries SET queued_at = queued_at - make_interval(secs => $1)", pause);
    await makeDue();
  }
  // The next pause would have ended after three days.
  expect(seconds / 86_400).toBeGreaterThan(2.6);
  expect(seconds / 86_400).toBeLessThan(3);
  expect(await deliveriesOf(id)).toMatchObject([{ lastError: "answered 500", responseStatus: 500 }]);
});

describe("an answer", () => {
  const HOUR = 3600;

  test.each([
    ["301", 301, {}, "answered 301: redirects are not followed", 2],
    ["404", 404, {}, "answered 404", 2],
    ["100 seconds", 429, { "Retry-After": "100" }, "answered 429", 100],
    ["a date", 503, { "Retry-After": "in an hour" }, "answered 503", HOUR],
    ["a minute less than six hours", 503, { "Retry-After": "21540" }, "answered 503", 6 * HOUR - 60],
    ["six hours", 503, { "Retry-After": "21600" }, "answered 503", 6 * HOUR],
    ["a week", 503, { "Retry-After": "604800" }, "answered 503", 6 * HOUR],
    ["nonsense", 503, { "Retry-After": "soon" }, "answered 503", 2],
  ])("of %s is a failure, and the next attempt honors Retry-After", async (_, status, headers, lastError, pause) => {
    const other = await openReceiver();
    const { "Retry-After": retryAfter }: { "Retry-After"?: string } = headers;
    const inAnHour = new Date(Date.now() + HOUR * 1000).toUTCString();
    const receiver = await openReceiver((response) => {
      if (retryAfter) response.setHeader("Retry-After", retryAfter === "in an hour" ? inAnHour : retryAfter);
      response.writeHead(status, { location: other.url }).end();
    });
    const { id } = await addEndpoint(receiver.url);
    await owner.addForm();
    await startTestWorker(services);
    const delivery = await waitFor(id, "retrying");
    expect(delivery).toMatchObject({ lastError, responseStatus: status });
    expect(secondsUntil(delivery)).toBeGreaterThan(pause - 10);
    // Jitter of 20%.
    expect(secondsUntil(delivery)).toBeLessThan(1.2 * pause + 10);
    expect(other.received).toEqual([]);
  });

  test("of 410 disables the endpoint at once, and its owner is told by email", async () => {
    const mailServer = await openMailServer();
    const receiver = await openReceiver((response) => response.writeHead(410).end());
    const { id } = await addEndpoint(`${receiver.url}?token=hidden`);
    await owner.addForm();
    const env = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
    await startTestWorker(await openServicesWithMail(services, mailServer.url, env));
    expect(await waitFor(id, "failed")).toMatchObject({ attempts: 1, lastError: "answered 410", nextAttemptAt: null });
    expect(await webhooks.get({ id })).toMatchObject({ enabled: false, disabledReason: "gone" });
    await expect.poll(() => mailServer.received.length).toBe(1);
    const { email } = await operator.users.get({ id: owner.userId });
    const [{ to, mail } = expect.fail("no mail")] = mailServer.received;
    expect(to).toEqual([email]);
    // Without its host: subjects have no link that a tenant has chosen.
    expect(mail.subject).toBe("Your webhook endpoint was disabled");
    expect(mail.text).toMatch(/\/hook was disabled at .*, because it answered 410 Gone\./);
    expect(mail.text).not.toContain("hidden");
    expect((await operator.audit.trail({ subjectId: id }))[0]).toMatchObject({
      action: "webhook.disabled",
      actor: "system",
      details: { reason: "gone" },
    });
    await owner.addForm();
    expect(await deliveriesOf(id)).toHaveLength(1);
  });

  test("of a failure is stored with its first 256 bytes, cut between characters", async () => {
    const receiver = await openReceiver((response) => response.writeHead(500).end(`xx${"€".repeat(1_000)}`));
    const { id } = await addEndpoint(receiver.url);
    await owner.addForm();
    await startTestWorker(services);
    expect(await waitFor(id, "retrying")).toMatchObject({ responseStatus: 500, responseBody: `xx${"€".repeat(84)}` });
  });
});

describe("a receiver", () => {
  const pem = readFileSync(join(packageRoot(), "test/server/localhost.pem"));

  /** A server that handles its connections with `serve`. */
  async function openTcp(greeting: string): Promise<string> {
    const server = createTcpServer((socket) => socket.on("error", () => {}).end(greeting));
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${await listenLocally(server)}`;
  }

  async function openTls(): Promise<string> {
    const server = createHttpsServer({ key: pem, cert: pem }, (_, response) => response.end());
    onTestFinished(() => void server.close());
    return `https://localhost:${await listenLocally(server)}`;
  }

  test.each([
    ["that does not listen", async () => `http://127.0.0.1:${await freePort()}`, "connection refused"],
    ["that closes the connection", () => openTcp(""), "the connection was closed without an answer"],
    [
      "that does not speak HTTP",
      () => openTcp("220 mail.example.com SMTP\r\n"),
      "the request failed: HPE_INVALID_CONSTANT",
    ],
    ["whose certificate is not trusted", openTls, "the request failed: DEPTH_ZERO_SELF_SIGNED_CERT"],
    ["that has no name", async () => "http://receiver.invalid", "the request failed: ENOTFOUND"],
  ])("%s is retried", async (_, open, lastError) => {
    const { id } = await addEndpoint(await open());
    await owner.addForm();
    await startTestWorker(services);
    const delivery = await waitFor(id, "retrying");
    expect(delivery).toMatchObject({ lastError, responseStatus: null, responseBody: null, attempts: 1 });
  });

  test("that answers 101 gives its place to the next attempt, and its connection is closed", async () => {
    let isClosed = false;
    const server = createTcpServer((socket) => {
      socket
        .on("error", () => {})
        .on("close", () => {
          isClosed = true;
        });
      socket.resume().write("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    });
    onTestFinished(() => void server.close());
    const { id } = await addEndpoint(`http://127.0.0.1:${await listenLocally(server)}`);
    await owner.addForm();
    await startTestWorker(services);
    expect(await waitFor(id, "retrying")).toMatchObject({ lastError: "answered 101", attempts: 1 });
    await expect.poll(() => isClosed, { timeout: 5_000 }).toBe(true);
  });

  test("has 10 s to answer; of an answer that begins in time the status counts", async () => {
    const silent = await openReceiver(() => {});
    const slow = await openReceiver((response) => {
      response.writeHead(200).write("begun");
    });
    const [never, begun] = [await addEndpoint(silent.url), await addEndpoint(slow.url)];
    await owner.addForm();
    const start = performance.now();
    await startTestWorker(services);
    expect(await waitFor(begun.id, "sent", 15_000)).toMatchObject({ responseStatus: 200, responseBody: null });
    const failed = await waitFor(never.id, "retrying", 15_000);
    expect(failed).toMatchObject({ lastError: "no answer within 10 s", responseStatus: null });
    expect(performance.now() - start).toBeGreaterThan(9_500);
    expect(performance.now() - start).toBeLessThan(14_000);
  }, 30_000);
});

test("a secret that was rotated signs too for 24 hours, also what waited before", async () => {
  const receiver = await openReceiver();
  const { id, secret: old } = await addEndpoint(receiver.url, receiver);
  await owner.addForm();
  const rotated = await webhooks.rotateSecret({ id });
  expect((Date.parse(rotated.previousSecretUntil) - Date.now()) / 3_600_000).toBeCloseTo(24, 1);
  receiver.secrets.push(rotated.secret);
  await startTestWorker(services);
  await expect.poll(() => receiver.received.map(({ signedBy }) => signedBy)).toEqual([[old, rotated.secret]]);
  await sql("UPDATE webhook_endpoints SET previous_secrets_until = ARRAY[now()]");
  await owner.addForm();
  await expect.poll(() => receiver.received[1]?.signedBy).toEqual([rotated.secret]);
});

test("a rotation that is repeated within 24 hours keeps the signatures of all secrets before it", async () => {
  const receiver = await openReceiver();
  const { id, secret } = await addEndpoint(receiver.url, receiver);
  for (let count = 0; count < 3; count++) receiver.secrets.push((await webhooks.rotateSecret({ id })).secret);
  await owner.addForm();
  await startTestWorker(services);
  await expect.poll(() => receiver.received[0]?.signedBy).toEqual(receiver.secrets);
  for (let count = 0; count < 3; count++) receiver.secrets.push((await webhooks.rotateSecret({ id })).secret);
  await owner.addForm();
  await expect.poll(() => receiver.received[1]?.signedBy).toEqual(receiver.secrets.slice(1));
  expect(receiver.received[1]?.signedBy).not.toContain(secret);
});

test("webhooks.test sends an event without a form, and lists it", async () => {
  const receiver = await openReceiver();
  const { id, secret } = await addEndpoint(receiver.url, receiver);
  await startTestWorker(services);
  const queued = await webhooks.test({ id });
  expect(queued).toMatchObject({ endpointId: id, event: "webhook.test", formId: null, state: "waiting" });
  expect(await waitFor(id, "sent")).toMatchObject({ id: queued.id, responseStatus: 204 });
  const event = { type: "webhook.test", timestamp: queued.createdAt, sentAt: expect.any(String), data: {} };
  expect(receiver.received).toMatchObject([{ id: queued.id, event, signedBy: [secret] }]);
});

test("a change whose details are past their retention fails instead of being sent without them", async () => {
  const receiver = await openReceiver();
  const { id } = await addEndpoint(receiver.url);
  const form = await owner.addForm();
  await owner.forms.setStatus({ id: form.id, status: "COMPLETED" });
  await operator.forms.setParty({ id: form.id, numberOfPets: 1 });
  await owner.forms.update({ id: form.id, ...fixedStay(owner.listingId, { numberOfGuests: 3 }) });
  const { id: elsewhere } = await owner.addListing();
  await owner.forms.update({ id: form.id, ...fixedStay(elsewhere) });
  await sql("DELETE FROM audit_entries");
  await startTestWorker(services);
  const failed = ["failed", "what has changed is past its retention"];
  await expect
    .poll(async () => (await deliveriesOf(id)).map(({ state, lastError }) => [state, lastError]))
    .toEqual([["sent", null], failed, failed, failed, failed]);
  expect(receiver.types()).toEqual(["form.created"]);
  expect(await webhooks.get({ id }), "it is no failure of the endpoint").toMatchObject({ failingSince: null });
});
