import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";

import { packageRoot } from "../../prisma/package-root.js";
import { mint } from "../../server/keys/authenticator.js";
import { recordActivity } from "../../server/worker-activity.js";

import { asOperator, fixedStay, openTestServices } from "../factories.js";
import { createTestDatabase, freePort, spawnCli } from "../harness.js";
import { makeListingOwner } from "../server/listing-owner.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../server/mail-server.js";
import { addListing, clientOf, startInside, TOKEN } from "./inside.js";

/** The samples of a scrape, by name and labels as they are written. */
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

const requestsOf = (metrics: Map<string, number>) =>
  [...metrics].reduce(
    (sum, [name, value]) => (name.startsWith("guest_forms_requests_total") ? sum + value : sum),
    0,
  );

describe("one process", () => {
  let metrics: Map<string, number>;
  let secrets: string[];

  beforeAll(async () => {
    const inside = await startInside({ RATE_LIMIT_MAX: "8", BAD_KEY_LIMIT_MAX: "2" });
    const operator = clientOf(inside.url);
    const { id: userId } = await operator.users.create.mutate({ email: "host@people.test" });
    const { id: listingId } = await addListing(operator, userId);
    const { key, id: keyId } = await operator.keys.issue.mutate({ userId, mode: "READ_WRITE" });
    const send = (path: string, body?: unknown, used = key) =>
      fetch(inside.publicUrl + path, {
        headers: { Authorization: `Bearer ${used}`, "Content-Type": "application/json" },
        ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
      }).then((response) => response.text());
    const body = fixedStay(listingId, { guestEmail: "guest@people.test" });
    for (let repeat = 0; repeat < 3; repeat++) await send("/v1/forms", body);
    await send("/v1/forms", { listingId });
    await send(`/v1/forms?listingId=${listingId}`);
    await send("/v1/nothing");
    for (let more = 0; more < 5; more++) await send("/v1/listings");
    const unknown = mint("READ_ONLY");
    for (let repeat = 0; repeat < 4; repeat++) await send("/v1/listings", undefined, unknown);
    metrics = await scrape(inside.url);
    secrets = [key, keyId, userId, listingId, "people.test", unknown.slice(0, 20)];
  });

  test("requests are counted by operation and status", () => {
    const count = (operation: string, status: number) =>
      metrics.get(`guest_forms_requests_total{operation="${operation}",status="${status}"}`);
    expect(count("forms.create", 201)).toBe(3);
    expect(count("forms.create", 400)).toBe(1);
    expect(count("forms.list", 200)).toBe(1);
    expect(count("listings.list", 200)).toBe(2);
    // Refused before it is known what they ask for: three over the key's limit, two over the address's.
    expect(count("none", 429)).toBe(5);
    expect(count("none", 404)).toBe(1);
    expect(count("none", 401)).toBe(2);
    expect(count("users.create", 200)).toBe(1);
  });

  test("latencies are histograms by operation", () => {
    expect(metrics.get('guest_forms_request_seconds_count{operation="forms.create"}')).toBe(4);
    expect(metrics.get('guest_forms_request_seconds_bucket{le="+Inf",operation="forms.create"}')).toBe(4);
    expect(metrics.get('guest_forms_request_seconds_sum{operation="forms.create"}')).toBeGreaterThan(0);
  });

  test("the pool, the key cache, refusals, fallbacks, replays and notifications are told", () => {
    expect(metrics.get('guest_forms_pool_connections{state="idle"}')).toBeGreaterThan(0);
    expect(metrics.get('guest_forms_pool_connections{state="waiting"}')).toBe(0);
    expect(metrics.get('guest_forms_key_look_ups_total{cache="miss"}')).toBeGreaterThanOrEqual(5);
    expect(metrics.get('guest_forms_key_look_ups_total{cache="hit"}')).toBeGreaterThanOrEqual(8);
    expect(metrics.get('guest_forms_rate_limit_refusals_total{limit="key"}')).toBe(3);
    expect(metrics.get('guest_forms_rate_limit_refusals_total{limit="bad_key"}')).toBe(2);
    expect(metrics.get("guest_forms_rate_limit_fallbacks_total")).toBe(0);
    expect(metrics.get("guest_forms_replays_total")).toBe(2);
    expect(metrics.get('guest_forms_notifications{state="waiting"}')).toBe(1);
    expect(metrics.get('guest_forms_notifications{state="failed"}')).toBe(0);
  });

  test("the lag of the event loop is told", () => {
    for (const of of ["p50", "p99", "max"]) {
      expect(metrics.get(`nodejs_eventloop_lag_${of}_seconds`)).toBeGreaterThan(0);
    }
  });

  test("labels are few, and never a key, an id or an address", () => {
    const text = [...metrics.keys()].join("\n");
    for (const secret of secrets) expect(text).not.toContain(secret);
    const labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map(([, label]) => label));
    const own = [...labels].filter(
      (label) => !["kind", "space", "type", "version", "major", "minor", "patch"].includes(label ?? ""),
    );
    expect(own.sort()).toEqual([
      "cache",
      "class",
      "le",
      "limit",
      "node",
      "operation",
      "outcome",
      "state",
      "status",
    ]);
  });

  test("the build is told", () => {
    const { version } = createRequire(import.meta.url)("guest-forms/package.json");
    expect(metrics.get(`guest_forms_build_info{version="${version}",node="${process.version}"}`)).toBe(1);
  });
});

describe("what workers do is told by any gateway on their database", () => {
  const attempts = (outcome: string) => `guest_forms_notification_attempts_total{outcome="${outcome}"}`;
  const heartbeat = (sends: boolean) => `guest_forms_worker_heartbeat_age_seconds{sends="${sends}"}`;
  const LONGEST_WAIT = "guest_forms_notifications_longest_wait_seconds";
  const RETENTION = "guest_forms_retention_last_run_timestamp_seconds";

  test("mails sent and failed, the oldest that waits, heartbeats, the retention's last run, and nothing else than documented", async () => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const inside = await startInside({ DATABASE_URL });
    const services = await openTestServices({ DATABASE_URL });
    const holder = await makeListingOwner(services);
    expect((await fetch(`${inside.publicUrl}/v1/forms`)).status).toBe(401);
    const before = await scrape(inside.url);
    expect(["sent", "retrying", "failed", "crashed"].map((outcome) => before.get(attempts(outcome)))).toEqual(
      [0, 0, 0, 0],
    );
    expect([before.has(heartbeat(true)), before.has(heartbeat(false)), before.has(RETENTION)]).toEqual([
      false,
      false,
      false,
    ]);
    expect(before.get(LONGEST_WAIT)).toBe(0);

    for (let guests = 1; guests <= 3; guests++)
      await holder.create({ ...holder.body, numberOfGuests: guests });
    await services.db.pool.query("UPDATE notifications SET next_attempt_at = now() - interval '10 minutes'");
    await startTestWorker(services);
    await expect.poll(async () => (await scrape(inside.url)).get(heartbeat(false))).toBeLessThan(60);
    const waiting = await scrape(inside.url);
    expect(waiting.has(heartbeat(true))).toBe(false);
    expect(waiting.get(LONGEST_WAIT)).toBeGreaterThanOrEqual(600);

    const office = await openMailServer();
    office.rcptErrors.push({ code: 550, text: "no such mailbox" }, { code: 451, text: "busy" });
    const mailing = await openServicesWithMail(services, office.url, { WORKER_CONCURRENCY: "1" });
    const began = Date.now() / 1000;
    await startTestWorker(mailing);
    await expect
      .poll(async () => {
        const metrics = await scrape(inside.url);
        return [attempts("sent"), attempts("retrying"), attempts("failed")].map((name) => metrics.get(name));
      })
      // The one that was refused for now is sent at its second attempt.
      .toEqual([2, 1, 1]);
    const after = await scrape(inside.url);
    expect(after.get(attempts("crashed"))).toBe(0);
    expect(after.get(heartbeat(true))).toBeLessThan(60);
    expect(after.get(LONGEST_WAIT)).toBe(0);
    expect(after.get(RETENTION)).toBeGreaterThan(began - 60);
    expect(after.get('guest_forms_notifications{state="failed"}')).toBe(1);

    const page = await readFile(join(packageRoot(), "gateway/docs/metrics.md"), "utf8");
    const documented = [...page.matchAll(/^\| `(guest_forms_\w+)`/gm)].map(([, name]) => name);
    const told = [...after.keys()].flatMap((name) => /^guest_forms_\w+/.exec(name) ?? []);
    const families = told.map((name) => name.replace(/^(guest_forms_request_seconds)_\w+$/, "$1"));
    expect([...new Set(families)].sort()).toEqual(documented.sort());
  });
});

test("database errors are counted by their class; refusals of ours are none", async () => {
  const inside = await startInside({ DATABASE_STATEMENT_TIMEOUT_MS: "200" });
  const services = await openTestServices({ DATABASE_URL: inside.databaseUrl });
  const operator = clientOf(inside.url);
  const { id: userId } = await operator.users.create.mutate({ email: "host@people.test" });
  const { id: listingId } = await addListing(operator, userId);
  const { key } = await operator.keys.issue.mutate({ userId, mode: "READ_WRITE" });
  const send = async (body: unknown) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const response = await fetch(`${inside.publicUrl}/v1/forms`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return response.status;
  };
  const classes = async () => {
    const metrics = await scrape(inside.url);
    return ["conflict", "unavailable", "fault"].map((name) =>
      metrics.get(`guest_forms_database_errors_total{class="${name}"}`),
    );
  };
  expect(await send(fixedStay(userId))).toBe(404);
  expect(await classes()).toEqual([0, 0, 0]);
  await services.db.pool.query("ALTER TABLE creations RENAME TO gone");
  expect(await send(fixedStay(listingId))).toBe(500);
  await services.db.pool.query("ALTER TABLE gone RENAME TO creations");
  expect(await classes()).toEqual([0, 0, 1]);
  const blocker = await services.db.pool.connect();
  await blocker.query("BEGIN; LOCK TABLE listings");
  expect(await send(fixedStay(listingId))).toBe(503);
  await blocker.query("ROLLBACK");
  blocker.release();
  expect(await classes()).toEqual([0, 1, 1]);
});

test("without the database all else is told, and its absence within three seconds", async () => {
  const { url: DATABASE_URL, drop } = await createTestDatabase();
  const inside = await startInside({ DATABASE_URL });
  await drop();
  const began = performance.now();
  const metrics = await scrape(inside.url);
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(metrics.has('guest_forms_notifications{state="waiting"}')).toBe(false);
  expect(metrics.get('guest_forms_pool_connections{state="waiting"}')).toBe(0);
  expect(metrics.has("guest_forms_notifications_longest_wait_seconds")).toBe(false);
  const again = await scrape(inside.url);
  expect(again.get('guest_forms_database_errors_total{class="unavailable"}')).toBeGreaterThan(0);
});

test("Redis lost: what is counted in memory is counted as a fallback", async () => {
  const inside = await startInside({ REDIS_URL: `redis://127.0.0.1:${await freePort()}` });
  const operator = clientOf(inside.url);
  const { id: userId } = await operator.users.create.mutate({ email: "host@people.test" });
  const { key } = await operator.keys.issue.mutate({ userId, mode: "READ_ONLY" });
  for (let n = 0; n < 3; n++) {
    await fetch(`${inside.publicUrl}/v1/listings`, { headers: { Authorization: `Bearer ${key}` } });
  }
  expect((await scrape(inside.url)).get("guest_forms_rate_limit_fallbacks_total")).toBe(3);
});

test("several processes: one internal port tells their sum, which a replaced worker does not lower", async () => {
  const { url: DATABASE_URL } = await createTestDatabase();
  const services = await openTestServices({ DATABASE_URL, APP_SECRETS: "" });
  for (let sent = 1; sent <= 3; sent++) await recordActivity(services.db, "notification.sent");
  const operator = asOperator(services);
  const { id: userId } = await operator.users.create({ email: "host@people.test" });
  const { key } = await operator.keys.issue({ userId, mode: "READ_ONLY" });
  const internalPort = await freePort();
  const service = spawnCli(["serve", "--json", "--workers", "2", "--no-worker"], {
    env: {
      DATABASE_URL,
      PORT: "0",
      INTERNAL_PORT: String(internalPort),
      INTERNAL_TOKEN: TOKEN,
      DATABASE_CONNECT_TIMEOUT_MS: "10000",
      DATABASE_STATEMENT_TIMEOUT_MS: "10000",
    },
  });
  const [, text = ""] = await service.waitForLine(/^(\{"url".+\})$/, 60_000);
  const { url } = JSON.parse(text);
  const internal = `http://127.0.0.1:${internalPort}`;
  const send = async (count: number) => {
    const statuses = await Promise.all(
      Array.from({ length: count }, async () => {
        const headers = { Authorization: `Bearer ${key}`, Connection: "close" };
        const response = await fetch(`${url}/v1/listings`, { headers });
        await response.text();
        return response.status;
      }),
    );
    expect(new Set(statuses)).toEqual(new Set([200]));
  };
  await send(40);
  const first = await scrape(internal);
  expect(first.get('guest_forms_requests_total{operation="listings.list",status="200"}')).toBe(40);
  expect(first.get('guest_forms_notifications{state="waiting"}')).toBe(0);
  expect(first.get('guest_forms_notification_attempts_total{outcome="sent"}')).toBe(3);
  const builds = [...first].filter(([name]) => name.startsWith("guest_forms_build_info"));
  expect(builds.map(([, value]) => value)).toEqual([1]);
  expect((await clientOf(internal).users.get.query({ id: userId })).id).toBe(userId);

  // What is answered after the last scrape counts too.
  await send(10);
  process.kill(service.pid, "SIGHUP");
  await service.waitForLine(/the workers are replaced/, 60_000);
  await expect.poll(async () => requestsOf(await scrape(internal))).toBeGreaterThanOrEqual(51);
  await send(5);
  const last = await scrape(internal);
  expect(last.get('guest_forms_requests_total{operation="listings.list",status="200"}')).toBe(55);
  expect(last.get('guest_forms_request_seconds_count{operation="listings.list"}')).toBe(55);
  expect((await service.stop()).code).toBe(0);
}, 120_000);
