import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PROCEDURES } from "../../gateway/http/procedures.js";
import { packageRoot } from "../../prisma/package-root.js";
import { RETENTION_TABLES } from "../../server/database/retention.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { createTestDatabase } from "../support/database.js";
import { asOperator, makeKey } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock } from "../support/locks.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { freePort } from "../support/network.js";
import { fixedStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { createInternalClient, startInternalGateway, TOKEN } from "./internal-gateway.js";

/** Scrapes the metrics. Keys are names with labels, as in the text format. */
async function scrape(url: string): Promise<Map<string, number>> {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
  const lines = (await response.text()).split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}

const unusedRedisUrl = async () => `redis://127.0.0.1:${await freePort()}`;
const DATABASE_UP = "guest_forms_database_up";
const emails = (state: string) => `guest_forms_emails{state="${state}"}`;
const requestCount = (operation: string, status: number) =>
  `guest_forms_requests_total{operation="${operation}",status="${status}"}`;

describe("metrics of one process", async () => {
  const { gateway, url } = await startInternalGateway({ RATE_LIMIT_MAX: 8, BAD_KEY_LIMIT_MAX: 2 });
  const { userId, listingId } = await makeListingOwner(await gateway.services());
  const { keys } = createInternalClient(url);
  const { key, id: keyId } = await keys.issue.mutate({ userId, mode: "READ_WRITE" });
  const create = (body: unknown) => gateway.request({ method: "POST", path: "/v1/forms", key, body });
  const body = fixedStay(listingId, { guestEmail: "guest@people.test" });
  for (let repeat = 0; repeat < 3; repeat++) await create(body);
  await create({ listingId });
  await gateway.request({ path: `/v1/forms?listingId=${listingId}`, key });
  await gateway.request({ path: "/v1/nothing", key });
  for (let more = 0; more < 5; more++) await gateway.request({ path: "/v1/listings", key });
  const unknown = generateKey("READ_ONLY");
  for (let repeat = 0; repeat < 4; repeat++) await gateway.request({ path: "/v1/listings", key: unknown });
  const metrics = await scrape(url);
  const { version } = createRequire(import.meta.url)("guest-forms/package.json");

  test.each([
    [requestCount("forms.create", 201), 3],
    [requestCount("forms.create", 400), 1],
    [requestCount("forms.list", 200), 1],
    [requestCount("listings.list", 200), 2],
    // Rejected before the operation is called: three over the limit of the key, two over the limit of the address.
    [requestCount("listings.list", 429), 5],
    [requestCount("listings.list", 401), 2],
    [requestCount("none", 404), 1],
    ['guest_forms_request_duration_seconds_count{operation="listings.list"}', 2],
    [requestCount("keys.issue", 200), 1],
    ['guest_forms_request_duration_seconds_count{operation="forms.create"}', 4],
    ['guest_forms_request_duration_seconds_bucket{le="+Inf",operation="forms.create"}', 4],
    ["guest_forms_pool_waiting_requests", 0],
    ['guest_forms_rate_limit_refusals_total{limit="key"}', 3],
    ['guest_forms_rate_limit_refusals_total{limit="bad_key"}', 2],
    ["guest_forms_rate_limit_fallbacks_total", 0],
    ["guest_forms_replays_total", 2],
    [emails("waiting"), 1],
    [emails("failed"), 0],
    [emails("expired"), 0],
    [DATABASE_UP, 1],
    ["guest_forms_redis_up", undefined],
    [`guest_forms_build_info{version="${version}",node="${process.version}"}`, 1],
  ])("%s is reported exactly: %d", (name, value) => expect(metrics.get(name)).toBe(value));

  test.each([
    ['guest_forms_request_duration_seconds_sum{operation="forms.create"}', 0],
    ['guest_forms_pool_connections{state="idle"}', 0],
    ['guest_forms_key_lookups_total{cache="miss"}', 4],
    ['guest_forms_key_lookups_total{cache="hit"}', 7],
    ["nodejs_eventloop_lag_p50_seconds", 0],
    ["nodejs_eventloop_lag_p99_seconds", 0],
    ["nodejs_eventloop_lag_max_seconds", 0],
  ])("%s is reported as more than %d", (name, low) => expect(metrics.get(name)).toBeGreaterThan(low));

  test("every operation has a count of status 500 from the start, so that its first failure is an increase", () => {
    const operations = [...PROCEDURES, "batch", "none"];
    expect(operations.length).toBeGreaterThan(20);
    expect(new Set(operations.map((name) => metrics.get(requestCount(name, 500))))).toEqual(new Set([0]));
  });

  test("the start of the process is reported", () => {
    const startedAt = Number(metrics.get("process_start_time_seconds"));
    expect(Math.abs(startedAt + process.uptime() - Date.now() / 1000)).toBeLessThan(5);
  });

  test("labels are a fixed set and never have a key, an id or an email address", () => {
    const text = [...metrics.keys()].join("\n");
    for (const secret of [key, keyId, userId, listingId, "people.test", unknown.slice(0, 20)])
      expect(text).not.toContain(secret);
    const labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map(([, label = ""]) => label));
    const own = "cache class le limit node operation outcome place state status table".split(" ");
    const ofNode = "kind space type version major minor patch".split(" ");
    expect([...labels].filter((label) => !ofNode.includes(label)).sort()).toEqual(own);
  });
});

test("any gateway reports attempts, the longest wait, heartbeats, the last retention run and the rows it deleted of all workers, and metrics.md lists every metric", async () => {
  const attempts = (outcome: string) => `guest_forms_email_attempts_total{outcome="${outcome}"}`;
  const heartbeat = (sends: boolean) => `guest_forms_worker_heartbeat_age_seconds{sends="${sends}"}`;
  const LONGEST_WAIT = "guest_forms_emails_longest_wait_seconds";
  const RETENTION = "guest_forms_retention_last_run_timestamp_seconds";
  const deleted = (table: string) => `guest_forms_retention_deleted_rows_total{table="${table}"}`;

  // With REDIS_URL, because guest_forms_redis_up is absent without.
  const { gateway, url } = await startInternalGateway({ REDIS_URL: await unusedRedisUrl() });
  const services = await gateway.services();
  const { pool } = services.db;
  const holder = await makeListingOwner(services);
  await gateway.request({ path: "/v1/forms" });
  const before = await scrape(url);
  for (const name of ["sent", "retrying", "failed", "expired", "crashed"].map(attempts))
    expect(before.get(name)).toBe(0);
  for (const name of [heartbeat(true), heartbeat(false), RETENTION]) expect(before.has(name)).toBe(false);
  expect([before.get(LONGEST_WAIT), before.get(deleted("audit_entries"))]).toEqual([0, 0]);

  for (let guests = 1; guests <= 3; guests++) await holder.create({ ...holder.body, numberOfGuests: guests });
  const { form: over } = await holder.create({ ...holder.body, numberOfGuests: 4 });
  await pool.query("UPDATE forms SET check_out_date = now() - interval '1 ms' WHERE id = $1", [over.id]);
  await pool.query("UPDATE emails SET next_attempt_at = now() - interval '10 minutes'");
  await pool.query("UPDATE audit_entries SET at = '2020-01-01' WHERE action = 'form.created'");
  await startTestWorker(services);
  await expect.poll(async () => (await scrape(url)).get(emails("expired"))).toBe(1);
  await expect.poll(async () => (await scrape(url)).get(heartbeat(false))).toBeLessThan(60);
  const waiting = await scrape(url);
  expect(waiting.has(heartbeat(true))).toBe(false);
  expect(waiting.get(LONGEST_WAIT)).toBeGreaterThanOrEqual(600);

  const mailServer = await openMailServer();
  mailServer.rcptErrors.push({ code: 550, text: "no such mailbox" }, { code: 451, text: "busy" });
  const mailing = await openServicesWithMail(services, mailServer.url, { WORKER_CONCURRENCY: "1" });
  const began = Date.now() / 1000;
  await startTestWorker(mailing);
  const outcomes = async () => {
    const metrics = await scrape(url);
    return ["sent", "retrying", "failed", "expired"].map((outcome) => metrics.get(attempts(outcome)));
  };
  // The email with the temporary failure is sent at its second attempt. Workers report their counts every 5 s.
  await expect.poll(outcomes).toEqual([2, 1, 1, 1]);
  await expect.poll(async () => (await scrape(url)).has(RETENTION)).toBe(true);
  const after = await scrape(url);
  expect(after.get(attempts("crashed"))).toBe(0);
  expect(after.get(heartbeat(true))).toBeLessThan(60);
  expect(after.get(LONGEST_WAIT)).toBe(0);
  expect(after.get(RETENTION)).toBeGreaterThan(began - 60);
  expect(RETENTION_TABLES.map((table) => after.get(deleted(table)))).toEqual([4, 0, 0, 0, 0]);
  expect(after.get(emails("failed"))).toBe(1);

  const page = await readFile(join(packageRoot(), "gateway/docs/metrics.md"), "utf8");
  const documented = [...page.matchAll(/^\| `(guest_forms_\w+)`/gm)].map(([, name]) => name);
  const reported = [...after.keys()].flatMap((name) => /^guest_forms_\w+/.exec(name) ?? []);
  const families = reported.map((name) => name.replace(/^(guest_forms_request_duration_seconds)_\w+$/, "$1"));
  expect([...new Set(families)].sort()).toEqual(documented.sort());
});

test("any gateway reports the webhook deliveries that wait, the attempts, and the endpoints that fail or were disabled", async () => {
  const { gateway, url } = await startInternalGateway();
  const services = await gateway.services();
  const sql = (statement: string) => services.db.pool.query(statement);
  const holder = await makeListingOwner(services);
  await asOperator(services).webhooks.create({ userId: holder.userId, url: "https://hooks.example.com" });
  const read = async () => {
    const metrics = await scrape(url);
    const of = (name: string, label: string, ...values: string[]) =>
      values.map((value) => metrics.get(`guest_forms_webhook_${name}{${label}="${value}"}`));
    return {
      deliveries: of("deliveries", "state", "waiting", "running"),
      longestWait: metrics.get("guest_forms_webhook_deliveries_longest_wait_seconds"),
      attempts: of(
        "delivery_attempts_total",
        "outcome",
        "sent",
        "retrying",
        "failed",
        "expired",
        "crashed",
        "out_of_scope",
      ),
      endpoints: of("endpoints", "state", "enabled", "failing", "disabled"),
    };
  };
  const none = { deliveries: [0, 0], longestWait: 0, attempts: [0, 0, 0, 0, 0, 0], endpoints: [1, 0, 0] };
  expect(await read()).toEqual(none);
  for (let guests = 1; guests <= 3; guests++) await holder.create({ ...holder.body, numberOfGuests: guests });
  await sql("UPDATE webhook_deliveries SET next_attempt_at = now() - interval '10 minutes'");
  const waiting = await read();
  expect(waiting).toEqual({ ...none, deliveries: [3, 0], longestWait: expect.any(Number) });
  expect(waiting.longestWait).toBeGreaterThanOrEqual(600);
  await sql("UPDATE webhook_endpoints SET failing_since = now()");
  expect(await read()).toEqual({ ...none, deliveries: [3, 0], endpoints: [0, 1, 0] });
  await sql("DELETE FROM memberships");
  await startTestWorker(services);
  // The worker reports its counts every 5 s.
  const outOfScope = { ...none, attempts: [0, 0, 0, 0, 0, 3], endpoints: [0, 1, 0] };
  await expect.poll(read).toEqual(outOfScope);
  await sql("UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'manual'");
  expect((await read()).endpoints).toEqual([0, 0, 0]);
  await sql("UPDATE webhook_endpoints SET disabled_reason = 'gone'");
  expect((await read()).endpoints).toEqual([0, 0, 1]);
});

test("database errors are counted by class, and rejected requests are not counted", async () => {
  const { gateway, url } = await startInternalGateway({ DATABASE_STATEMENT_TIMEOUT_MS: 1_000 });
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
  const lock = await holdLock(services, "LOCK TABLE listings");
  expect(await send(fixedStay(listingId))).toBe(503);
  await lock.rollback();
  expect(await countByClass()).toEqual([0, 1, 1]);
});

test("without the database a scrape takes less than 3 s and has all metrics that need no database", async () => {
  const { url: DATABASE_URL, drop } = await createTestDatabase();
  const { url } = await startInternalGateway({ DATABASE_URL });
  await drop();
  const began = performance.now();
  const metrics = await scrape(url);
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(metrics.get(DATABASE_UP)).toBe(0);
  expect(metrics.has(emails("waiting"))).toBe(false);
  expect(metrics.get("guest_forms_pool_waiting_requests")).toBe(0);
  expect(metrics.has("guest_forms_emails_longest_wait_seconds")).toBe(false);
  const again = await scrape(url);
  expect(again.get('guest_forms_database_errors_total{class="unavailable"}')).toBeGreaterThan(0);
});

test("a scrape ends within 6 s if the database hangs, however long its timeouts are", async () => {
  const proxy = await TcpProxy.start((await createTestDatabase()).url);
  const { url } = await startInternalGateway({ DATABASE_URL: proxy.url });
  expect((await scrape(url)).get(DATABASE_UP)).toBe(1);
  proxy.freeze();
  const began = performance.now();
  expect((await scrape(url)).get(DATABASE_UP)).toBe(0);
  expect(performance.now() - began).toBeLessThan(6_000);
});

test("a database that answers with an error is up", async () => {
  const { gateway, url } = await startInternalGateway();
  await (await gateway.services()).db.pool.query("ALTER TABLE worker_activity RENAME TO gone");
  const metrics = await scrape(url);
  expect(metrics.get(DATABASE_UP)).toBe(1);
  expect(metrics.has(emails("waiting"))).toBe(false);
});

test("without Redis every request counted in memory is reported as a fallback", async () => {
  const { gateway, url } = await startInternalGateway({ REDIS_URL: await unusedRedisUrl() });
  const { key } = await gateway.addKeyHolder();
  for (let n = 0; n < 3; n++) await gateway.request({ path: "/v1/listings", key });
  const metrics = await scrape(url);
  expect(metrics.get("guest_forms_rate_limit_fallbacks_total")).toBe(3);
  expect(metrics.get("guest_forms_redis_up")).toBe(0);
});
