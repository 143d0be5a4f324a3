import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startWorker } from "../../server/worker.js";
import { openMailServer, openServicesWithMail } from "../support/mail-server.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

const { services, owner, sql, addEndpoint } = await openWebhookCore();

const states = () => sql("SELECT state::text FROM emails UNION ALL SELECT state::text FROM webhook_deliveries");

/** Starts a worker, and waits until it is sending an email and a delivery, which are answered by `answer`. */
async function startSending(env: Record<string, string> = {}) {
  const mailServer = await openMailServer();
  mailServer.holdRcpt();
  let respond = () => {};
  const receiver = await openReceiver((response) => {
    respond = () => void response.writeHead(204).end();
  });
  await addEndpoint(receiver.url);
  await owner.create(owner.body);
  const options = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true", ...env };
  const warnings: object[] = [];
  const log = {
    info() {},
    warn: (facts: object, message: string) => void warnings.push({ ...facts, message }),
    error() {},
  };
  const worker = await startWorker(await openServicesWithMail(services, mailServer.url, options), log);
  await expect.poll(() => [mailServer.rcptCount, receiver.received.length]).toEqual([1, 1]);
  return {
    worker,
    warnings,
    mailServer,
    receiver,
    answer() {
      mailServer.releaseRcpt();
      respond();
    },
  };
}

test("a worker that stops waits for mail servers and receivers that take seconds to answer, records their answers and claims nothing more", async () => {
  const { worker, warnings, mailServer, receiver, answer } = await startSending();
  const stopped = worker.stop();
  await owner.create({ ...owner.body, numberOfGuests: 9 });
  await sleep(3_000);
  answer();
  await stopped;
  expect((await states()).map(({ state }) => state).sort()).toEqual(["sent", "sent", "waiting", "waiting"]);
  expect([mailServer.received.length, receiver.received.length]).toEqual([1, 1]);
  expect(warnings).toEqual([]);
});

test("a worker stops after DRAIN_SECONDS although nothing was answered, and leaves what it was sending to others", async () => {
  const { worker, warnings } = await startSending({ DRAIN_SECONDS: "1" });
  const began = performance.now();
  await worker.stop();
  expect(performance.now() - began).toBeGreaterThan(900);
  expect(await states()).toEqual([{ state: "running" }, { state: "running" }]);
  const message = "stopped while sending: others send these again";
  expect(warnings).toEqual(["emails", "webhook_deliveries"].map((channel) => ({ channel, rows: 1, message })));
});
