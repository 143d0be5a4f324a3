import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { ActivityCounts, readActivity } from "../../server/outbox/activity.js";
import { startSending } from "../../server/outbox/sending.js";
import { deliveryChannel } from "../../server/webhooks/channel.js";
import type { Answer, Post } from "../../server/webhooks/request.js";
import { addDeliveries, addEmails } from "../support/outbox-backlog.js";
import { deliveryQueue, emailQueue } from "../support/outbox-queue.js";
import { openWebhookCore } from "../support/webhook-core.js";

const { services, owner, sql, makeOwner, holdLock, waitForBlocked, webhooks, addEndpoint } = await openWebhookCore();

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
