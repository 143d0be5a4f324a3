import { expect, test } from "vitest";
import { ActivityCounts, readActivity } from "../../server/outbox/activity.js";
import { createHeartbeat } from "../../server/outbox/worker.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { deliveryQueue, emailQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What one table or kind of work does to the others of the same worker.

const { services, owner, sql, holdLock, webhooks, addEndpoint, waitForBlocked, openProcess } = await openWebhookCore();

const withMail = (url: string) => openServicesWithMail(services, url, { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
const heartbeats = async () => (await readActivity(services.db)).get("worker.with_mailer")?.count ?? 0;

test("while the outcome of an email cannot be recorded, webhooks are sent and recorded, and heartbeats arrive", async () => {
  const mailServer = await openMailServer();
  mailServer.holdRcpt();
  const receiver = await openReceiver();
  const { id } = await addEndpoint(receiver.url);
  await owner.create(owner.body);
  await startTestWorker(await withMail(mailServer.url));
  await expect.poll(() => mailServer.rcptCount).toBe(1);
  const lock = await holdLock("SELECT FROM emails FOR UPDATE");
  mailServer.releaseRcpt();
  await waitForBlocked(1);
  await webhooks.test({ id });
  await expect.poll(() => receiver.types()).toContain("webhook.test");
  await expect.poll(() => sql("SELECT DISTINCT state FROM webhook_deliveries")).toEqual([{ state: "sent" }]);
  const before = await heartbeats();
  await expect.poll(heartbeats).toBeGreaterThan(before);
  await lock.rollback();
  await expect.poll(() => sql("SELECT state FROM emails")).toEqual([{ state: "sent" }]);
});

test("while nothing can read or write webhook deliveries, emails are sent and recorded, and heartbeats arrive", async () => {
  const mailServer = await openMailServer();
  await owner.create(owner.body);
  const lock = await holdLock("LOCK TABLE webhook_deliveries IN ACCESS EXCLUSIVE MODE");
  const before = await heartbeats();
  await startTestWorker(await withMail(mailServer.url));
  await expect.poll(() => sql("SELECT state FROM emails")).toEqual([{ state: "sent" }]);
  await expect.poll(heartbeats).toBeGreaterThan(before);
  await lock.rollback();
});

test("a heartbeat for deliveries is sent although the one for emails fails", async () => {
  const { id } = await addEndpoint("http://127.0.0.1:9/hook");
  await owner.create(owner.body);
  const [email, delivery] = [
    await emailQueue(services, "worker").claim(),
    await deliveryQueue(services, "worker").claim(),
  ];
  await sql("UPDATE webhook_deliveries SET heartbeat_at = now() - interval '15 s' WHERE endpoint_id = $1", id);
  const heartbeat = createHeartbeat(
    {
      workerId: "worker",
      channels: [],
      heartbeatDb: (await openProcess({ DATABASE_LOCK_TIMEOUT_MS: "100" })).db,
      counts: new ActivityCounts(),
      activity: "worker.with_mailer",
      drainSeconds: 0,
    },
    { emails: new Set([email?.id ?? ""]), webhook_deliveries: new Set([delivery?.id ?? ""]) },
    { info() {}, warn() {}, error() {} },
  );
  const lock = await holdLock("LOCK TABLE emails IN ACCESS EXCLUSIVE MODE");
  await expect(heartbeat()).rejects.toThrow(/lock timeout/);
  const age = async () =>
    (await sql("SELECT extract(epoch FROM now() - heartbeat_at)::float8 AS age FROM webhook_deliveries"))[0].age;
  await expect.poll(age).toBeLessThan(10);
  await lock.rollback();
});
