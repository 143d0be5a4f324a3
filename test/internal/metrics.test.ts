import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";

import { createMetrics, mergeSnapshots } from "../../gateway/internal/metrics.js";
import { PROCEDURES } from "../../gateway/internal/procedures.js";
import { packageRoot } from "../../prisma/package-root.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { RETENTION_TABLES, recordActivity } from "../../server/worker-activity.js";
import { createTestDatabase } from "../support/database.js";
import { makeKey, makeUser, openTestServices } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { freePort } from "../support/network.js";
import { fixedStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import {
  createInternalClient,
  spawnInternalGateway,
  startInternalGateway,
  TOKEN,
} from "./internal-gateway.js";

/** Scrapes the metrics. Keys are names with labels, as in the text format. */
async function scrape(url: string): Promise<Map<string, number>> {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    expect.stringContaining("text/plain; version=0.0.4"),
  ]);
  const lines = (await response.text()).split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

/** Metrics that only `--workers` reports. */
const WITH_WORKERS = ["guest_forms_process_crashes_total"];

const unusedRedisUrl = async () => `redis://127.0.0.1:${await freePort()}`;

const sumRequests = (metrics: Map<string, number>) =>
  [...metrics].reduce(
    (sum, [name, value]) => (name.startsWith("guest_forms_requests_total") ? sum + value : sum),
    0,
  );

describe("metrics of one process", () => {
  let metrics: Map<string, number>;
  let secrets: string[];

  beforeAll(async () => {
    const { gateway, url } = await startInternalGateway({ RATE_LIMIT_MAX: 8, BAD_KEY_LIMIT_MAX: 2 });
    const { userId, listingId } = await makeListingOwner(await gateway.services());
    const { key, id: keyId } = await createInternalClient(url).keys.issue.mutate({
      userId,
      mode: "READ_WRITE",
    });
    const create = (body: unknown) => gateway.request({ method: "POST", path: "/v1/forms", key, body });
    const body = fixedStay(listingId, { guestEmail: "guest@people.test" });
    for (let repeat = 0; repeat < 3; repeat++) await create(body);
    await create({ listingId });
    await gateway.request({ path: `/v1/forms?listingId=${listingId}`, key });
    await gateway.request({ path: "/v1/nothing", key });
    for (let more = 0; more < 5; more++) await gateway.request({ path: "/v1/listings", key });
    const unknown = generateKey("READ_ONLY");
    for (let repeat = 0; repeat < 4; repeat++) await gateway.request({ path: "/v1/listings", key: unknown });
    metrics = await scrape(url);
    secrets = [key, keyId, userId, listingId, "people.test", unknown.slice(0, 20)];
  });

  test("requests are counted by operation and status", () => {
    const count = (operation: string, status: number) =>
      metrics.get(`guest_forms_requests_total{operation="${operation}",status="${status}"}`);
    expect(count("forms.create", 201)).toBe(3);
    expect(count("forms.create", 400)).toBe(1);
    expect(count("forms.list", 200)).toBe(1);
    expect(count("listings.list", 200)).toBe(2);
    // Rejected before the operation is known: three over the limit of the key, two over the limit of the address.
    expect(count("none", 429)).toBe(5);
    expect(count("none", 404)).toBe(1);
    expect(count("none", 401)).toBe(2);
    expect(count("keys.issue", 200)).toBe(1);
  });

  test("every operation has a count of status 500 from the start, so that its first failure is an increase", () => {
    const counts = [...PROCEDURES, "batch", "none"].map((operation) =>
      metrics.get(`guest_forms_requests_total{operation="${operation}",status="500"}`),
    );
    expect(counts.length).toBeGreaterThan(20);
    expect(new Set(counts)).toEqual(new Set([0]));
  });

  test("latencies are reported as histograms by operation", () => {
    expect(metrics.get('guest_forms_request_duration_seconds_count{operation="forms.create"}')).toBe(4);
    expect(
      metrics.get('guest_forms_request_duration_seconds_bucket{le="+Inf",operation="forms.create"}'),
    ).toBe(4);
    expect(metrics.get('guest_forms_request_duration_seconds_sum{operation="forms.create"}')).toBeGreaterThan(
      0,
    );
  });

  test("the pool, the key cache, rate-limit refusals and fallbacks, replays and notifications are reported", () => {
    expect(metrics.get('guest_forms_pool_connections{state="idle"}')).toBeGreaterThan(0);
    expect(metrics.get("guest_forms_pool_waiting_requests")).toBe(0);
    expect(metrics.get('guest_forms_key_lookups_total{cache="miss"}')).toBeGreaterThanOrEqual(5);
    expect(metrics.get('guest_forms_key_lookups_total{cache="hit"}')).toBeGreaterThanOrEqual(8);
    expect(metrics.get('guest_forms_rate_limit_refusals_total{limit="key"}')).toBe(3);
    expect(metrics.get('guest_forms_rate_limit_refusals_total{limit="bad_key"}')).toBe(2);
    expect(metrics.get("guest_forms_rate_limit_fallbacks_total")).toBe(0);
    expect(metrics.get("guest_forms_replays_total")).toBe(2);
    expect(metrics.get('guest_forms_notifications{state="waiting"}')).toBe(1);
    expect(metrics.get('guest_forms_notifications{state="failed"}')).toBe(0);
  });

  test("the lag of the event loop is reported", () => {
    for (const quantile of ["p50", "p99", "max"]) {
      expect(metrics.get(`nodejs_eventloop_lag_${quantile}_seconds`)).toBeGreaterThan(0);
    }
  });

  test("labels are a fixed set and never have a key, an id or an email address", () => {
    const text = [...metrics.keys()].join("\n");
    for (const secret of secrets) expect(text).not.toContain(secret);
    const labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map(([, label]) => label));
    const ownLabels = [...labels].filter(
      (label) => !["kind", "space", "type", "version", "major", "minor", "patch"].includes(label ?? ""),
    );
    expect(ownLabels.sort()).toEqual([
      "cache",
      "class",
      "le",
      "limit",
      "node",
      "operation",
      "outcome",
      "state",
      "status",
      "table",
    ]);
  });

  test("the start of the process and whether the database answers are reported, and Redis only with REDIS_URL", () => {
    const startedAt = Number(metrics.get("process_start_time_seconds"));
    expect(Math.abs(startedAt + process.uptime() - Date.now() / 1000)).toBeLessThan(5);
    expect(metrics.get("guest_forms_database_up")).toBe(1);
    expect(metrics.has("guest_forms_redis_up")).toBe(false);
  });

  test("the version of the build and of Node.js is reported", () => {
    const { version } = createRequire(import.meta.url)("guest-forms/package.json");
    expect(metrics.get(`guest_forms_build_info{version="${version}",node="${process.version}"}`)).toBe(1);
  });
});

describe("metrics of workers", () => {
  const attempts = (outcome: string) => `guest_forms_notification_attempts_total{outcome="${outcome}"}`;
  const heartbeat = (sends: boolean) => `guest_forms_worker_heartbeat_age_seconds{sends="${sends}"}`;
  const LONGEST_WAIT = "guest_forms_notifications_longest_wait_seconds";
  const RETENTION = "guest_forms_retention_last_run_timestamp_seconds";
  const deleted = (table: string) => `guest_forms_retention_deleted_rows_total{table="${table}"}`;

  test("any gateway reports attempts, the longest wait, heartbeats, the last retention run and the rows it deleted of all workers, and metrics.md lists every metric", async () => {
    // With REDIS_URL, because guest_forms_redis_up is absent without.
    const { gateway, url } = await startInternalGateway({ REDIS_URL: await unusedRedisUrl() });
    const services = await gateway.services();
    const holder = await makeListingOwner(services);
    await gateway.request({ path: "/v1/forms" });
    const before = await scrape(url);
    expect(["sent", "retrying", "failed", "crashed"].map((outcome) => before.get(attempts(outcome)))).toEqual(
      [0, 0, 0, 0],
    );
    expect([before.has(heartbeat(true)), before.has(heartbeat(false)), before.has(RETENTION)]).toEqual([
      false,
      false,
      false,
    ]);
    expect(before.get(LONGEST_WAIT)).toBe(0);
    expect(before.get(deleted("audit_entries"))).toBe(0);

    for (let guests = 1; guests <= 3; guests++)
      await holder.create({ ...holder.body, numberOfGuests: guests });
    await services.db.pool.query("UPDATE notifications SET next_attempt_at = now() - interval '10 minutes'");
    await services.db.pool.query("UPDATE audit_entries SET at = '2020-01-01' WHERE action = 'form.created'");
    await startTestWorker(services);
    await expect.poll(async () => (await scrape(url)).get(heartbeat(false))).toBeLessThan(60);
    const waiting = await scrape(url);
    expect(waiting.has(heartbeat(true))).toBe(false);
    expect(waiting.get(LONGEST_WAIT)).toBeGreaterThanOrEqual(600);

    const mailServer = await openMailServer();
    mailServer.rcptErrors.push({ code: 550, text: "no such mailbox" }, { code: 451, text: "busy" });
    const mailing = await openServicesWithMail(services, mailServer.url, { WORKER_CONCURRENCY: "1" });
    const began = Date.now() / 1000;
    await startTestWorker(mailing);
    await expect
      .poll(async () => {
        const metrics = await scrape(url);
        return [attempts("sent"), attempts("retrying"), attempts("failed")].map((name) => metrics.get(name));
      })
      // The notification with the temporary failure is sent at its second attempt.
      .toEqual([2, 1, 1]);
    const after = await scrape(url);
    expect(after.get(attempts("crashed"))).toBe(0);
    expect(after.get(heartbeat(true))).toBeLessThan(60);
    expect(after.get(LONGEST_WAIT)).toBe(0);
    expect(after.get(RETENTION)).toBeGreaterThan(began - 60);
    expect(RETENTION_TABLES.map((table) => after.get(deleted(table)))).toEqual([3, 0, 0]);
    expect(after.get('guest_forms_notifications{state="failed"}')).toBe(1);

    const page = await readFile(join(packageRoot(), "gateway/docs/metrics.md"), "utf8");
    const documented = [...page.matchAll(/^\| `(guest_forms_\w+)`/gm)].map(([, name]) => name);
    const reported = [...after.keys()].flatMap((name) => /^guest_forms_\w+/.exec(name) ?? []);
    const families = reported.map((name) =>
      name.replace(/^(guest_forms_request_duration_seconds)_\w+$/, "$1"),
    );
    expect([...new Set([...families, ...WITH_WORKERS])].sort()).toEqual(documented.sort());
  });
});

test("database errors are counted by class, and rejected requests are not counted", async () => {
  const { gateway, url } = await startInternalGateway({ DATABASE_STATEMENT_TIMEOUT_MS: 200 });
  const services = await gateway.services();
  const { userId, listingId } = await makeListingOwner(services);
  const { key } = await makeKey(services, userId);
  const send = async (body: unknown) =>
    (await gateway.request({ method: "POST", path: "/v1/forms", key, body })).status;
  const countByClass = async () => {
    const metrics = await scrape(url);
    return ["conflict", "unavailable", "fault"].map((name) =>
      metrics.get(`guest_forms_database_errors_total{class="${name}"}`),
    );
  };
  expect(await send(fixedStay(userId))).toBe(404);
  expect(await countByClass()).toEqual([0, 0, 0]);
  await services.db.pool.query("ALTER TABLE creations RENAME TO gone");
  expect(await send(fixedStay(listingId))).toBe(500);
  await services.db.pool.query("ALTER TABLE gone RENAME TO creations");
  expect(await countByClass()).toEqual([0, 0, 1]);
  const blocker = await services.db.pool.connect();
  await blocker.query("BEGIN; LOCK TABLE listings");
  expect(await send(fixedStay(listingId))).toBe(503);
  await blocker.query("ROLLBACK");
  blocker.release();
  expect(await countByClass()).toEqual([0, 1, 1]);
});

test("without the database a scrape takes less than 3 s and has all metrics that need no database", async () => {
  const { url: DATABASE_URL, drop } = await createTestDatabase();
  const { url } = await startInternalGateway({ DATABASE_URL });
  await drop();
  const began = performance.now();
  const metrics = await scrape(url);
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(metrics.get("guest_forms_database_up")).toBe(0);
  expect(metrics.has('guest_forms_notifications{state="waiting"}')).toBe(false);
  expect(metrics.get("guest_forms_pool_waiting_requests")).toBe(0);
  expect(metrics.has("guest_forms_notifications_longest_wait_seconds")).toBe(false);
  const again = await scrape(url);
  expect(again.get('guest_forms_database_errors_total{class="unavailable"}')).toBeGreaterThan(0);
});

test("a scrape ends within 6 s if the database hangs, however long its timeouts are", async () => {
  const { url: target } = await createTestDatabase();
  const proxy = await TcpProxy.start(target);
  const { url } = await startInternalGateway({ DATABASE_URL: proxy.url });
  expect((await scrape(url)).get("guest_forms_database_up")).toBe(1);
  proxy.freeze();
  const began = performance.now();
  expect((await scrape(url)).get("guest_forms_database_up")).toBe(0);
  expect(performance.now() - began).toBeLessThan(6_000);
});

test("a database that answers with an error is up", async () => {
  const { gateway, url } = await startInternalGateway();
  await (await gateway.services()).db.pool.query("ALTER TABLE worker_activity RENAME TO gone");
  const metrics = await scrape(url);
  expect(metrics.get("guest_forms_database_up")).toBe(1);
  expect(metrics.has('guest_forms_notifications{state="waiting"}')).toBe(false);
});

test("without Redis every request counted in memory is reported as a fallback", async () => {
  const { gateway, url } = await startInternalGateway({ REDIS_URL: await unusedRedisUrl() });
  const { key } = await gateway.addKeyHolder();
  for (let n = 0; n < 3; n++) await gateway.request({ path: "/v1/listings", key });
  const metrics = await scrape(url);
  expect(metrics.get("guest_forms_rate_limit_fallbacks_total")).toBe(3);
  expect(metrics.get("guest_forms_redis_up")).toBe(0);
});

test("the lag of several processes is that of the slowest one, and their start is that of the primary", async () => {
  const snapshot = await createMetrics().read();
  const withValue = (value: number) =>
    snapshot.map((metric) => ({ ...metric, values: metric.values.map((one) => ({ ...one, value })) }));
  const merged = mergeSnapshots([withValue(0.01), withValue(0.8), withValue(0.02)]);
  const readValue = async (name: string) => (await merged.getSingleMetric(name)?.get())?.values[0]?.value;
  expect(await readValue("nodejs_eventloop_lag_p99_seconds")).toBe(0.8);
  expect(await readValue("nodejs_eventloop_lag_min_seconds")).toBe(0.01);
  expect(await readValue("process_start_time_seconds")).toBe(0.01);
  expect(await readValue("process_resident_memory_bytes")).toBeCloseTo(0.83);
});

test("with several processes one internal port reports their sum, which does not drop when workers are replaced, and counts those that crash", async () => {
  const services = await openTestServices({ APP_SECRETS: "" });
  for (let sent = 1; sent <= 3; sent++) await recordActivity(services.db, "notification.sent");
  const { id: userId } = await makeUser(services);
  const { key } = await makeKey(services, userId);
  const { url, publicUrl, service } = await spawnInternalGateway(["--workers", "2", "--no-worker"], {
    DATABASE_URL: services.db.url,
    DATABASE_CONNECT_TIMEOUT_MS: "10000",
    DATABASE_STATEMENT_TIMEOUT_MS: "10000",
  });
  const send = async (count: number) => {
    const headers = { Connection: "close" };
    const sent = Array.from({ length: count }, () =>
      sendRequest(`${publicUrl}/v1/listings`, key, { headers }),
    );
    for (const { status } of await Promise.all(sent)) expect(status).toBe(200);
  };
  await send(40);
  const first = await scrape(url);
  expect(first.get('guest_forms_requests_total{operation="listings.list",status="200"}')).toBe(40);
  expect(first.get('guest_forms_notifications{state="waiting"}')).toBe(0);
  expect(first.get('guest_forms_notification_attempts_total{outcome="sent"}')).toBe(3);
  const builds = [...first].filter(([name]) => name.startsWith("guest_forms_build_info"));
  expect(builds.map(([, value]) => value)).toEqual([1]);
  expect((await createInternalClient(url).users.get.query({ id: userId })).id).toBe(userId);

  // Requests after the last scrape of a replaced worker count too.
  await send(10);
  process.kill(service.pid, "SIGHUP");
  await service.waitForLine(/all workers were replaced/, 60_000);
  await expect.poll(async () => sumRequests(await scrape(url))).toBeGreaterThanOrEqual(51);
  await send(5);
  const last = await scrape(url);
  expect(last.get('guest_forms_requests_total{operation="listings.list",status="200"}')).toBe(55);
  expect(last.get('guest_forms_request_duration_seconds_count{operation="listings.list"}')).toBe(55);

  expect(WITH_WORKERS.map((name) => last.get(name))).toEqual([0]);
  const pids = [...service.stderr.matchAll(/"pid":(\d+).*"msg":"listening"/g)].map(([, pid]) => Number(pid));
  process.kill(Number(pids.at(-1)), "SIGKILL");
  await expect.poll(async () => (await scrape(url)).get("guest_forms_process_crashes_total")).toBe(1);
  expect((await service.stop()).code).toBe(0);
}, 120_000);
