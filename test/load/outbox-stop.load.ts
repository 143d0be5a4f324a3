import { expect, test } from "vitest";
import { openCoreOnCluster } from "../server/core-on-cluster.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { deliveryQueue } from "../support/outbox-queue.js";
import { spawnCli } from "../support/processes.js";
import { openReceiver, type WebhookReceiver } from "../support/webhook-receiver.js";

// How workers end, with thousands of deliveries to receivers that answer in 20 ms, and a disk that takes 20 ms for each commit.

const core = await openCoreOnCluster({ commit_delay: "20000", commit_siblings: "0" });
const { services, operator, sql } = core;

const OWNERS = 16;
const ENDPOINTS = 8;
const PER_ENDPOINT = 40;
const DELIVERIES = OWNERS * ENDPOINTS * PER_ENDPOINT;
const STOP_AFTER = 1_000;
const ANSWER_MS = 20;
/** With the default timeouts of the database, unlike other tests: a stop must not depend on longer ones. */
const ENV = { DATABASE_URL: services.db.url, WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true", LOG_LEVEL: "warn" };

async function startWorkerProcess() {
  const worker = spawnCli(["worker"], { env: ENV });
  await worker.waitForLine(/^Sending/);
  return worker;
}

const countUnsent = async () =>
  (await sql("SELECT count(*)::int FROM webhook_deliveries WHERE state <> 'sent'"))[0].count;

const countBusySessions = async () =>
  (
    await sql(
      `SELECT count(*)::int FROM pg_stat_activity
       WHERE application_name = 'guest-forms' AND state <> 'idle' AND pid <> pg_backend_pid()`,
    )
  )[0].count;

const idsInState = async (state: string): Promise<string[]> =>
  (await sql("SELECT event_id FROM webhook_deliveries WHERE state::text = $1", state)).map(({ event_id }) => event_id);

const idsOf = ({ received }: WebhookReceiver) => received.map(({ id }) => id);

/** Starts two workers with DELIVERIES to send to a new receiver. Returns them when it has STOP_AFTER. */
async function startInTheMiddle() {
  await sql("TRUNCATE webhook_endpoints, webhook_deliveries");
  const receiver = await openReceiver((response) => {
    setTimeout(() => response.writeHead(204).end(), ANSWER_MS);
  });
  for (let owners = 0; owners < OWNERS; owners++) {
    const { userId } = await makeListingOwner(services);
    for (let endpoints = 0; endpoints < ENDPOINTS; endpoints++) {
      const { id } = await operator.webhooks.create({ userId, url: "https://example.com/hook" });
      await addDeliveries(sql, id, PER_ENDPOINT);
    }
  }
  await sql("UPDATE webhook_endpoints SET url = $1", receiver.url);
  const workers = [await startWorkerProcess(), await startWorkerProcess()] as const;
  await expect.poll(() => receiver.received.length, { interval: 5 }).toBeGreaterThan(STOP_AFTER);
  return { receiver, workers };
}

/** Waits as long as it takes: rates are judged by the benchmark. */
async function sendTheRest(): Promise<void> {
  const worker = await startWorkerProcess();
  await expect.poll(countUnsent, { timeout: 180_000 }).toBe(0);
  await worker.stop();
}

test("two workers that are told to stop among 5,120 deliveries exit by themselves and record all that was accepted; after a third one each was sent once", async () => {
  const { receiver, workers } = await startInTheMiddle();
  const ends = await Promise.all(workers.map((worker) => worker.stop("SIGTERM")));
  expect(ends.map(({ code, signal }) => [code, signal])).toEqual([
    [0, null],
    [0, null],
  ]);
  expect(receiver.received.length).toBeLessThan(DELIVERIES);
  expect((await idsInState("sent")).sort()).toEqual(idsOf(receiver).sort());
  expect(await countUnsent()).toBe(DELIVERIES - receiver.received.length);
  expect(await idsInState("running")).toEqual([]);
  await sendTheRest();
  expect(receiver.received).toHaveLength(DELIVERIES);
  expect(new Set(idsOf(receiver)).size).toBe(DELIVERIES);
  expect(receiver.errors).toEqual([]);
});

test("after kill -9 of both workers, at most what was in flight is sent again, with the same webhook-id, and nothing is lost", async () => {
  const { receiver, workers } = await startInTheMiddle();
  await Promise.all(workers.map((worker) => worker.stop("SIGKILL")));
  // Postgres completes the statement that a session has begun, although its client is gone.
  await expect.poll(countBusySessions).toBe(0);
  const inFlight = new Set(await idsInState("running"));
  expect(inFlight.size).toBeGreaterThan(0);
  // As if 20 seconds had passed.
  await sql("UPDATE webhook_deliveries SET heartbeat_at = now() - interval '1 minute' WHERE state = 'running'");
  expect(await deliveryQueue(services, "worker").releaseStale()).toHaveLength(inFlight.size);
  await sendTheRest();
  const ids = idsOf(receiver);
  expect(new Set(ids).size).toBe(DELIVERIES);
  const again = ids.filter((id, index) => ids.indexOf(id) !== index);
  expect(again.filter((id) => !inFlight.has(id))).toEqual([]);
  expect(new Set(again).size).toBe(again.length);
});
