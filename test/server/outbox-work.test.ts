import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { ActivityCounts, readActivity } from "../../server/outbox/activity.js";
import { createHeartbeat, startSending } from "../../server/outbox/sending.js";
import { deliveryChannel } from "../../server/webhooks/channel.js";
import type { Answer, Post } from "../../server/webhooks/request.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { addDeliveries, addEmails } from "../support/outbox-backlog.js";
import { deliveryQueue, emailQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";
import { openReceiver } from "../support/webhook-receiver.js";

// What a worker writes at once, and what its kinds of work do to each other and to changes of forms.

const core = await openWebhookCore();
const { services, owner, sql, makeOwner, holdLock, waitForBlocked, openProcess, webhooks, addEndpoint } = core;

const URL = "http://127.0.0.1:9/hook";
const SILENT = { info() {}, warn() {}, error() {} };
const ANSWER: Answer = { status: 204, body: "", retryAfterSeconds: null, durationMs: 1 };

/** Adds this many deliveries to each of 56 endpoints of 7 owners, and starts a worker, which has room for 4 of each. */
async function startBusyWorker(deliveries: number) {
  for (let owners = 0; owners < 7; owners++) {
    const { userId } = await makeOwner();
    for (let endpoints = 0; endpoints < 8; endpoints++)
      await addDeliveries(sql, (await webhooks.create({ userId, url: URL })).id, deliveries);
  }
  const answers: (() => void)[] = [];
  let answersAtOnce = false;
  const post: Post = () =>
    answersAtOnce ? Promise.resolve(ANSWER) : new Promise((resolve) => answers.push(() => resolve(ANSWER)));
  /** Outcomes per statement. */
  const recorded: number[] = [];
  let claims = 0;
  const db: typeof services.db = {
    ...services.db,
    async query(name, text, values) {
      if (name === "record-deliveries") recorded.push(JSON.parse(`${values[1]}`).length);
      const rows = await services.db.query(name, text, values);
      if (name === "claim-deliveries") claims++;
      return rows as never;
    },
  };
  const workerId = randomUUID();
  const counts = new ActivityCounts();
  const channels = [deliveryChannel({ services: { ...services, db }, post, workerId, counts, log: SILENT })];
  const activity = "worker.without_mailer";
  const worker = startSending(
    { workerId, channels: channels as never, heartbeatDb: db, counts, activity, drainSeconds: 5 },
    SILENT,
  );
  const answerAll = () => {
    answersAtOnce = true;
    for (const answer of answers.splice(0)) answer();
  };
  onTestFinished(async () => {
    answerAll();
    await worker.stop();
  });
  await expect.poll(() => answers.length).toBe(224);
  return { answers, answerAll, recorded, claims: () => claims };
}

const countSent = async () => (await sql("SELECT count(*)::int FROM webhook_deliveries WHERE state = 'sent'"))[0].count;

test("200 deliveries that end while another is recorded are recorded in one statement", async () => {
  const { answers, recorded } = await startBusyWorker(4);
  const lock = await holdLock("SELECT FROM webhook_deliveries FOR UPDATE");
  answers.shift()?.();
  await waitForBlocked(1);
  for (const answer of answers.splice(0, 200)) answer();
  await new Promise(setImmediate);
  await lock.commit();
  await expect.poll(countSent).toBe(201);
  expect(recorded).toEqual([1, 200]);
});

test("a worker claims nothing in place of deliveries whose outcomes it cannot record", async () => {
  const { answers, answerAll, claims } = await startBusyWorker(8);
  const lock = await holdLock("SELECT FROM webhook_deliveries WHERE state = 'running' FOR UPDATE");
  for (const answer of answers.splice(0, 200)) answer();
  await waitForBlocked(1);
  const before = claims();
  await expect.poll(claims).toBeGreaterThan(before + 1);
  expect(answers).toHaveLength(24);
  await lock.commit();
  answerAll();
  await expect.poll(countSent).toBe(448);
});

test("claims and outcomes are counted in memory: no statement of theirs writes worker_activity", async () => {
  await sql(`
    CREATE FUNCTION only_counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NOT EXISTS (SELECT FROM pg_prepared_statements WHERE statement = current_query() AND name = 'add-activity')
      THEN RAISE EXCEPTION 'worker_activity is written by %', current_query(); END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER only_counts AFTER INSERT OR UPDATE ON worker_activity FOR EACH STATEMENT EXECUTE FUNCTION only_counts()`);
  onTestFinished(async () => void (await sql("DROP FUNCTION only_counts CASCADE")));
  await expect(services.db.query("other-writer", "UPDATE worker_activity SET count = 0", [])).rejects.toThrow(
    "worker_activity is written by",
  );
  const readCounts = async () =>
    new Map([...(await readActivity(services.db))].map(([name, { count }]) => [name, count]));
  const before = await readCounts();
  const counts = new ActivityCounts();
  await addEmails(sql, owner.userId, 3);
  await addDeliveries(sql, (await addEndpoint(URL)).id, 3);
  const emails = emailQueue(services, "worker", undefined, counts);
  const deliveries = deliveryQueue(services, "worker", async () => ANSWER, counts);
  for (const row of await emails.claimSome(3)) await emails.mark(row, "sent");
  for (const row of await deliveries.claimSome(3)) await deliveries.attempt(row);
  expect(await readCounts()).toEqual(before);
  await counts.flush(services.db);
  const after = await readCounts();
  for (const name of ["email.sent", "delivery.sent"] as const)
    expect((after.get(name) ?? 0) - (before.get(name) ?? 0)).toBe(3);
});

test("counts that cannot be added to the database are added with the next heartbeat, once", async () => {
  const countOf = async () => (await readActivity(services.db)).get("email.crashed")?.count ?? 0;
  const before = await countOf();
  const counts = new ActivityCounts();
  counts.add("email.crashed", 3);
  await expect(counts.flush({ query: () => Promise.reject(new Error("the database is gone")) })).rejects.toThrow(
    "gone",
  );
  counts.add("email.crashed", 2);
  for (let flushes = 0; flushes < 2; flushes++) await counts.flush(services.db);
  expect(await countOf()).toBe(before + 5);
});

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
  const { id } = await addEndpoint(URL);
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
    SILENT,
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
