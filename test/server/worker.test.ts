import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import type { Sql } from "../../server/database/db.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { repeat } from "../../server/outbox/repeat.js";
import { createHeartbeat } from "../../server/outbox/sending.js";
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

test("a worker takes over from others at its third heartbeat in a row, and counts again after it was suspended or a heartbeat failed", async () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  let statements: string[] = [];
  let isDown = false;
  const heartbeatDb: Sql = {
    async query(name) {
      if (isDown) throw new Error("the database is down");
      statements.push(name);
      return [];
    },
  };
  const sending = { workerId: "worker", channels: [], heartbeatDb, counts: new ActivityCounts(), drainSeconds: 1 };
  const log = { info() {}, warn() {}, error() {} };
  const inFlight = { emails: new Set(["1"]), webhook_deliveries: new Set(["2"]) };
  const heartbeat = createHeartbeat({ ...sending, activity: "worker.with_mailer" }, inFlight, log);
  /** Whether a heartbeat after this time takes over. */
  const takesOver = async (ms: number) => {
    now += ms;
    statements = [];
    await heartbeat().catch(() => {});
    return ["release-emails", "release-deliveries"].every((name) => statements.includes(name));
  };
  const takeOvers = async (...pauses: number[]) => {
    const results = [];
    for (const ms of pauses) results.push(await takesOver(ms));
    return results;
  };
  expect(await takeOvers(0, 5_000, 5_000, 5_000, 9_999)).toEqual([false, false, true, true, true]);
  expect(await takeOvers(10_001, 5_000, 5_000)).toEqual([false, false, true]);
  isDown = true;
  expect(await takeOvers(5_000)).toEqual([false]);
  isDown = false;
  expect(await takeOvers(5_000, 5_000, 5_000)).toEqual([false, false, true]);
  vi.mocked(performance.now).mockRestore();
});

test("work is repeated until it is stopped, even after failures, and only the first failure in a row is reported", async () => {
  const stopping = new AbortController();
  const outcomes = [false, true, false, false, true, false, true];
  const failures: unknown[] = [];
  let runs = 0;
  await repeat(
    async () => {
      runs += 1;
      if (runs === outcomes.length) stopping.abort();
      if (!outcomes[runs - 1]) throw new Error(`run ${runs}`);
      return 1;
    },
    { signal: stopping.signal, retryMs: 1, onFailure: (error) => failures.push(error) },
  );
  expect(runs).toBe(outcomes.length);
  expect(failures.map(String)).toEqual(["Error: run 1", "Error: run 3", "Error: run 6"]);
});
