import { Counter, Histogram } from "prom-client";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { keepHistory } from "../../gateway/console/history.js";
import { createMetrics } from "../../gateway/internal/metrics.js";
import type { Services } from "../../server/access/context.js";
import { type Activity, ActivityCounts } from "../../server/outbox/activity.js";
import { createTestDatabase } from "../support/database.js";
import { openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { Browser } from "./console-client.js";
import { startInternalGateway } from "./internal-gateway.js";

/** Counts in the database, as a worker does. */
async function count({ db }: Services, activity: Activity, times = 1) {
  const counts = new ActivityCounts();
  counts.add(activity, times);
  await counts.flush(db);
}

const { version } = (await import("../../package.json", { with: { type: "json" } })).default;

test("the overview shows what the process served since its start, and what waits to be sent", async () => {
  const before = new Date().toISOString();
  const { url, gateway } = await startInternalGateway({ RATE_LIMIT_MAX: 4 });
  const services = await gateway.services();
  const { userId, listingId } = await makeListingOwner(services);
  const { key } = await gateway.issueKey(userId);
  const browser = new Browser(url);
  await browser.signIn();
  const { overview } = browser.procedures().console;
  const { history } = await overview.query();
  expect(history).toEqual([
    {
      at: expect.any(String),
      requests: 0,
      errors: 0,
      refused: 0,
      p50Ms: null,
      p99Ms: null,
      emails: { sent: 0, failed: 0, retrying: 0 },
      deliveries: { sent: 0, failed: 0, retrying: 0 },
    },
  ]);
  const stay = fixedStay(listingId, { guestEmail: "guest@people.test" });
  for (let repeat = 0; repeat < 6; repeat++) {
    await gateway.request({ method: "POST", path: "/v1/forms", key, body: stay });
  }
  await services.db.pool.query("ALTER TABLE api_keys RENAME TO api_keys_gone");
  await gateway.request({ path: "/v1/forms", key: (await openUnknownKey()) ?? "" });
  await services.db.pool.query("ALTER TABLE api_keys_gone RENAME TO api_keys");
  await count(services, "email.sent");
  await count(services, "delivery.failed", 2);
  // What waits is read again after 5 s.
  await expect
    .poll(async () => (await overview.query()).emails?.counts.waiting, { timeout: 10_000, interval: 500 })
    .toBe(1);
  const shown = await overview.query();
  expect(shown).toEqual({
    version,
    node: process.version,
    startedAt: expect.any(String),
    history: [
      {
        at: history[0]?.at,
        // Six creates and the failed list, without the calls of the console.
        requests: 7,
        errors: 1,
        refused: 2,
        p50Ms: expect.any(Number),
        p99Ms: expect.any(Number),
        emails: { sent: 1, failed: 0, retrying: 0 },
        deliveries: { sent: 0, failed: 2, retrying: 0 },
      },
    ],
    emails: {
      counts: { waiting: 1, running: 0, retrying: 0, failed: 0, expired: 0, bounced: 0, dismissed: 0 },
      overdue: 0,
      stale: 0,
      longestWait: expect.any(Number),
    },
    deliveries: { waiting: 0, running: 0, overdue: 0, longestWait: 0, endpoints: 0, failing: 0, disabled: 0 },
  });
  expect(shown.startedAt >= before && shown.startedAt <= new Date().toISOString()).toBe(true);
  expect(shown.history[0]?.p99Ms).toBeGreaterThanOrEqual(shown.history[0]?.p50Ms ?? Number.POSITIVE_INFINITY);
});

/** A well-formed key that is not cached. */
const openUnknownKey = async () => (await import("../../server/keys/authenticator.js")).generateKey("READ_ONLY");

describe("the history", () => {
  /** With the minutes of this process in the hands of the test. */
  async function open(DATABASE_URL?: string) {
    const services = await openTestServices(DATABASE_URL ? { DATABASE_URL } : {});
    const { registry } = createMetrics();
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const history = keepHistory(services, registry);
    await history.read();
    const nextMinute = async () => {
      vi.advanceTimersByTime(60_000);
      await history.read();
    };
    const requests = registry.getSingleMetric("guest_forms_requests_total");
    const durations = registry.getSingleMetric("guest_forms_request_duration_seconds");
    if (!(requests instanceof Counter && durations instanceof Histogram)) throw new Error("no such metric");
    return { services, history, nextMinute, requests, durations };
  }

  test("has the last 60 minutes, oldest first, the last one in progress, and its quantiles are interpolated", async () => {
    const { history, nextMinute, requests, durations } = await open();
    for (let minute = 1; minute <= 70; minute++) {
      requests.inc({ operation: "forms.list", status: 200 }, minute);
      if (minute === 70) requests.inc({ operation: "forms.get", status: 503 }, 5);
      await nextMinute();
    }
    for (let count = 0; count < 100; count++) durations.observe({ operation: "forms.list" }, 0.004);
    requests.inc({ operation: "forms.get", status: 200 });
    for (const operation of ["batch", "console.overview", "none"]) {
      requests.inc({ operation, status: 500 });
      durations.observe({ operation }, 3);
    }
    const minutes = await history.read();
    expect(minutes.map(({ requests }) => requests)).toEqual([
      ...Array.from({ length: 58 }, (_, index) => index + 12),
      75,
      1,
    ]);
    expect(minutes.map(({ errors }) => errors)).toEqual([...Array(58).fill(0), 5, 0]);
    expect(minutes.map(({ at }) => at)).toEqual(minutes.map(({ at }) => at).toSorted());
    // Between 2.5 and 5 ms, the bounds of the bucket.
    expect(minutes.at(-1)).toMatchObject({ p50Ms: 3.75, p99Ms: 4.98 });
    expect(minutes.at(-2)).toMatchObject({ p50Ms: null, p99Ms: null });
  });

  test("is kept while the database is gone: what was sent is unknown in those minutes", async () => {
    const proxy = await TcpProxy.start((await createTestDatabase()).url);
    const { services, history, nextMinute, requests } = await open(proxy.url);
    await count(services, "email.retrying");
    await nextMinute();
    proxy.cut();
    requests.inc({ operation: "forms.list", status: 503 });
    await nextMinute();
    proxy.restore();
    await expect.poll(() => services.db.query("one", "SELECT 1", [])).toBeDefined();
    await nextMinute();
    await count(services, "email.sent");
    const minutes = await history.read();
    const none = { sent: 0, failed: 0, retrying: 0 };
    expect(minutes.map(({ emails }) => emails)).toEqual([{ ...none, retrying: 1 }, null, null, { ...none, sent: 1 }]);
    expect(minutes.map(({ requests, errors }) => [requests, errors])).toEqual([
      [0, 0],
      [1, 1],
      [0, 0],
      [0, 0],
    ]);
  });

  test("counts no attempts in the minute in which an older database was restored", async () => {
    const { services, history, nextMinute } = await open();
    await count(services, "email.sent");
    await nextMinute();
    await services.db.pool.query("UPDATE worker_activity SET count = 0");
    expect((await history.read()).map(({ emails }) => emails?.sent)).toEqual([1, 0]);
  });

  test("ends with the internal port, and does not keep the process alive", async () => {
    const clear = vi.spyOn(globalThis, "clearInterval");
    onTestFinished(() => clear.mockRestore());
    const set = vi.spyOn(globalThis, "setInterval");
    const { gateway } = await startInternalGateway();
    const minutely = set.mock.calls.findIndex(([work, ms]) => ms === 60_000 && `${work}`.includes("takeSample"));
    const timer = set.mock.results[minutely]?.value;
    set.mockRestore();
    expect(timer.hasRef()).toBe(false);
    await gateway.stop();
    expect(clear.mock.calls.some(([cleared]) => cleared === timer)).toBe(true);
  });
});

test("the health is the report of doctor, made once for concurrent calls and kept for 15 s", async () => {
  const { url } = await startInternalGateway();
  const { health } = await (async () => {
    const browser = new Browser(url);
    await browser.signIn();
    return browser.procedures().console;
  })();
  const [first, second] = await Promise.all([health.query(), health.query()]);
  expect(second).toEqual(first);
  expect(await health.query()).toEqual(first);
  expect(first.checks).toContainEqual({
    name: "database",
    status: "ok",
    message: expect.stringContaining("PostgreSQL"),
  });
  expect(first.checks.map(({ name }) => name)).toEqual(expect.arrayContaining(["schema", "redis", "mail server"]));
  // One process does not know how many there are.
  expect(first.checks.map(({ name }) => name)).not.toContain("connections");
});
