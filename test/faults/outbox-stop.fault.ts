import { expect, test } from "vitest";
import { openCoreOnCluster } from "../server/core-on-cluster.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { commandEnv } from "../support/mail-server.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { deliveryQueue } from "../support/outbox-queue.js";
import { spawnCli } from "../support/processes.js";
import { openReceiver, type WebhookReceiver } from "../support/webhook-receiver.js";

// How workers end, with thousands of deliveries to send and a disk that takes 20 ms for each commit.

const core = await openCoreOnCluster({ commit_delay: "20000", commit_siblings: "0" });
const { services, operator, sql } = core;

const DELIVERIES = 5_000;
const STOP_AFTER = 1_000;
const ENV = commandEnv(services, { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true", LOG_LEVEL: "warn" });

async function startWorkerProcess() {
  const worker = spawnCli(["worker"], { env: ENV });
  await worker.waitForLine(/^Sending/);
  return worker;
}

const countUnsent = async () =>
  (await sql("SELECT count(*)::int FROM webhook_deliveries WHERE state <> 'sent'"))[0].count;

const idsInState = async (state: string): Promise<string[]> =>
  (await sql("SELECT event_id FROM webhook_deliveries WHERE state::text = $1", state)).map(({ event_id }) => event_id);

const idsOf = ({ received }: WebhookReceiver) => received.map(({ id }) => id);

/** Starts two workers with DELIVERIES to send to a new receiver. Returns them when it has STOP_AFTER. */
async function startInTheMiddle() {
  await sql("TRUNCATE webhook_endpoints, webhook_deliveries");
  const receiver = await openReceiver();
  // As many owners and endpoints as fill both workers.
  for (let owners = 0; owners < 4; owners++) {
    const { userId } = await makeListingOwner(services);
    for (let endpoints = 0; endpoints < 8; endpoints++) {
      const { id } = await operator.webhooks.create({ userId, url: "https://example.com/hook" });
      await addDeliveries(sql, id, Math.ceil(DELIVERIES / 32));
    }
  }
  await sql("UPDATE webhook_endpoints SET url = $1", receiver.url);
  await sql("DELETE FROM webhook_deliveries WHERE id > (SELECT min(id) FROM webhook_deliveries) + $1", DELIVERIES - 1);
  const workers = [await startWorkerProcess(), await startWorkerProcess()] as const;
  await expect.poll(() => receiver.received.length, { interval: 5 }).toBeGreaterThan(STOP_AFTER);
  return { receiver, workers };
}

async function sendTheRest(): Promise<void> {
  const worker = await startWorkerProcess();
  await expect.poll(countUnsent, { timeout: 60_000 }).toBe(0);
  await worker.stop();
}

test("two workers that are told to stop among 5,000 deliveries exit by themselves and record all that was accepted; after a third one each was sent once", async () => {
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
