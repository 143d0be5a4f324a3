import { expect, onTestFinished, test } from "vitest";
import { ActivityCounts, readActivity } from "../../server/outbox/activity.js";
import { createHeartbeat } from "../../server/outbox/sending.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { deliveryQueue, emailQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What one table or kind of work does to the others of the same worker, and to changes of forms.

const { services, owner, sql, holdLock, webhooks, addEndpoint, waitForBlocked, openProcess } = await openWebhookCore();

const withMail = (url: string) => openServicesWithMail(services, url, { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
/** Blocks the writing of rows that meet the condition, until the result is rolled back. */
async function blockRows(table: string, operation: "INSERT" | "UPDATE", condition: string) {
  await sql(`
    CREATE FUNCTION block_rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$;
    CREATE TRIGGER block_rows BEFORE ${operation} ON ${table} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION block_rows()`);
  const lock = await holdLock("SELECT pg_advisory_xact_lock(1)");
  onTestFinished(async () => void (await sql("DROP FUNCTION block_rows CASCADE")));
  return lock;
}

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

test("a worker whose every other work is blocked, each on a connection of its own, sends heartbeats", async () => {
  const mailServer = await openMailServer();
  mailServer.holdRcpt();
  let answer = () => {};
  const receiver = await openReceiver((response) => {
    answer = () => void response.writeHead(204).end();
  });
  await addDeliveries(sql, "00000000-0000-4000-8000-000000000000", 1, "now() - interval '4 days'");
  await addEndpoint(receiver.url);
  await owner.create(owner.body);
  const locks = [
    // The expiry of deliveries.
    await blockRows("webhook_deliveries", "UPDATE", "NEW.state = 'expired'"),
    // The expiry of emails and the retention, later also the recording of outcomes.
    await holdLock("LOCK TABLE audit_entries IN EXCLUSIVE MODE"),
  ];
  const timeouts = { DATABASE_LOCK_TIMEOUT_MS: "60000", DATABASE_STATEMENT_TIMEOUT_MS: "60000" };
  const env = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true", AUDIT_RETENTION_DAYS: "365", ...timeouts };
  await startTestWorker(await openServicesWithMail(services, mailServer.url, env));
  await expect.poll(() => [mailServer.rcptCount, receiver.received.length]).toEqual([1, 1]);
  await waitForBlocked(3);
  // Claims.
  locks.push(await holdLock("LOCK TABLE webhook_endpoints IN ACCESS EXCLUSIVE MODE"));
  mailServer.releaseRcpt();
  answer();
  await waitForBlocked(7);
  const before = await heartbeats();
  await expect.poll(heartbeats).toBeGreaterThan(before);
  await waitForBlocked(7);
  for (const lock of locks) await lock.rollback();
  await expect.poll(() => sql("SELECT state FROM emails")).toEqual([{ state: "sent" }]);
});

test("the outcome of an email is recorded while an update that moves its stay has not been committed", async () => {
  const { form } = await owner.create(owner.body);
  const queue = emailQueue(services, "worker");
  const email = (await queue.claim()) ?? expect.fail("nothing is due");
  const lock = await blockRows("audit_entries", "INSERT", "NEW.action = 'form.updated'");
  const updated = owner.forms.update({
    ...owner.body,
    id: form.id,
    checkInDate: "2099-01-02T00:00:00Z",
    checkOutDate: "2099-01-05T00:00:00Z",
  });
  await waitForBlocked(1);
  await queue.mark(email, "sent");
  expect(await sql("SELECT state FROM emails")).toEqual([{ state: "sent" }]);
  await lock.rollback();
  await updated;
});
