import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import { asOperator, makeForm, makeKey, makeListing, makeUser, setRole, type TestKey } from "../factories.js";
import { sendRequest, type TimedResponse } from "./client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
  startGatewayProcesses,
} from "./gateway-processes.js";
import { TcpProxy } from "./tcp-proxy.js";

const SECOND_MS = 1_000;

let fixture: Fixture;
let gateways: GatewayProcess[];
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  fixture = await makeFixture();
  gateways = await startGatewayProcesses(3, fixture.env);
});
afterAll(() => agent.destroy());

/**
 * Sends requests to every process, before and after `endAccess`, until each has rejected five in a row. Returns the
 * milliseconds from the time that `endAccess` returns to the last accepted request on any process, 0 if there is none.
 */
async function measureLastAccepted(
  send: (url: string) => Promise<TimedResponse>,
  isAccepted: (response: TimedResponse) => boolean,
  endAccess: () => Promise<number>,
): Promise<number> {
  let isEnding = false;
  let endedAt = Number.POSITIVE_INFINITY;
  const watch = gateways.map(async ({ url }) => {
    let last = Number.NEGATIVE_INFINITY;
    for (let rejections = 0; rejections < 5; ) {
      const response = await send(url);
      if (isAccepted(response)) {
        last = response.sentAt;
        rejections = 0;
      } else if (isEnding) rejections += response.sentAt > endedAt ? 1 : 0;
      else throw new Error(`rejected too early: ${response.status}`);
      if (performance.now() > endedAt + 5 * SECOND_MS) throw new Error("accepted for 5 s");
      await sleep(20);
    }
    return last;
  });
  await Promise.race([sleep(100 + Math.random() * SECOND_MS), Promise.all(watch)]);
  isEnding = true;
  endedAt = await endAccess();
  return Math.max(0, ...(await Promise.all(watch)).map((last) => last - endedAt));
}

const requestWith =
  (key: TestKey, path = "/v1/listings?limit=1") =>
  (url: string) =>
    sendRequest(`${url}${path}`, key.key, { agent });
const isOk = ({ status }: TimedResponse) => status === 200;

it("a revoked key is rejected on every process within 1 s", async () => {
  const { keys } = asOperator(fixture.services);
  const delays: number[] = [];
  const revokeOne = async () => {
    const key = await makeKey(fixture.services, fixture.userId);
    const delay = await measureLastAccepted(requestWith(key), isOk, async () => {
      await keys.revoke({ id: key.id });
      return performance.now();
    });
    delays.push(delay);
  };
  await Promise.all(
    Array.from({ length: 5 }, async () => {
      for (let turn = 0; turn < 10; turn++) await revokeOne();
    }),
  );
  delays.sort((one, other) => one - other);
  console.info(`50 revocations: worst ${delays.at(-1)?.toFixed()} ms, median ${delays[25]?.toFixed()} ms`);
  expect(delays).toHaveLength(50);
  expect(delays.at(-1)).toBeLessThan(SECOND_MS);
});

it("an expired key, and a rotated key after its grace period, are rejected on every process within 1 s", async () => {
  const { keys } = asOperator(fixture.services);
  const at = (instant: string) => performance.now() + (Date.parse(instant) - Date.now());
  const expiry = new Date(Date.now() + 1_500).toISOString();
  const expiring = await makeKey(fixture.services, fixture.userId, { expiresAt: expiry });
  const expired = measureLastAccepted(requestWith(expiring), isOk, async () => at(expiry));
  const rotating = await makeKey(fixture.services, fixture.userId);
  const graced = measureLastAccepted(requestWith(rotating), isOk, async () => {
    const { replaces } = await keys.rotate({ id: rotating.id, graceSeconds: 1 });
    return at(replaces.expiresAt);
  });
  const ending = await makeKey(fixture.services, fixture.userId);
  const ended = measureLastAccepted(requestWith(ending), isOk, async () => {
    const { replaces } = await keys.rotate({ id: ending.id, graceSeconds: 0 });
    return at(replaces.expiresAt);
  });
  const [expiryMs = 0, graceMs = 0, noGraceMs = 0] = await Promise.all([expired, graced, ended]);
  console.info(
    `expiry ${expiryMs.toFixed()} ms, grace ${graceMs.toFixed()} ms, no grace ${noGraceMs.toFixed()} ms`,
  );
  expect(Math.max(expiryMs, graceMs, noGraceMs)).toBeLessThan(SECOND_MS);
});

it.each(["NONE", "READER"] as const)(
  "a role changed to %s takes effect on every process within 1 s",
  async (role) => {
    const { services } = fixture;
    const { id: userId } = await makeUser(services);
    const listing = await makeListing(services, userId);
    const form = await makeForm(services, userId, listing.id);
    const key = await makeKey(services, userId);
    const endAccess = async () => {
      await setRole(services, listing.id, userId, role);
      return performance.now();
    };
    const delay = await measureLastAccepted(requestWith(key, `/v1/forms/${form.id}`), isOk, endAccess);
    expect(delay).toBeLessThan(SECOND_MS);
    for (const { url } of gateways) {
      const { json } = await sendRequest(`${url}/v1/listings`, key.key, { agent });
      expect(json).toEqual({ items: [], nextCursor: null });
    }
  },
);

it("a key is looked up about once per second, regardless of its request rate", async () => {
  const separate = await makeFixture();
  const gateway = await startGatewayProcess(separate.env);
  await sendRequest(`${gateway.url}/v1/listings?limit=1`, separate.key.key, { agent });
  const began = performance.now();
  const responses: Promise<TimedResponse>[] = [];
  for (let batch = 0; batch < 100; batch++) {
    for (let index = 0; index < 10; index++)
      responses.push(sendRequest(`${gateway.url}/v1/listings?limit=1`, separate.key.key, { agent }));
    await sleep(Math.max(0, began + batch * 20 - performance.now()));
  }
  for (const { status } of await Promise.all(responses)) expect(status).toBe(200);
  const seconds = (performance.now() - began) / SECOND_MS;
  await gateway.process.stop();
  const lookups = await countKeyLookups(separate);
  console.info(`1001 requests in ${seconds.toFixed(1)} s: ${lookups} lookups of the key`);
  expect(lookups).toBeGreaterThan(0);
  expect(lookups).toBeLessThanOrEqual(Math.ceil(seconds / 0.9) + 1);
});

/** Scans of the index on key hashes. Postgres updates the count when a session ends, so waits until it is stable. */
async function countKeyLookups({ services }: Fixture): Promise<number> {
  let last = -1;
  for (;;) {
    const [row] = await services.db.query<{ scans: string }>(
      "scans",
      "SELECT idx_scan AS scans FROM pg_stat_user_indexes WHERE indexrelname = 'api_keys_hash_key'",
      [],
    );
    const scans = Number(row?.scans);
    if (scans > 0 && scans === last) return scans;
    last = scans;
    await sleep(300);
  }
}

it("a missing, malformed or mistyped key is rejected without a query", async () => {
  const proxy = await TcpProxy.start(fixture.services.db.url);
  const gateway = await startGatewayProcess({ ...fixture.env, DATABASE_URL: proxy.url });
  const wellFormed = generateKey("READ_WRITE");
  const mistyped = `${wellFormed.slice(0, 20)}${wellFormed[20] === "x" ? "y" : "x"}${wellFormed.slice(21)}`;
  const bytesBefore = proxy.bytesSent;
  for (const key of [
    undefined,
    "",
    "x",
    mistyped,
    wellFormed.slice(1),
    `${wellFormed}0`,
    wellFormed.toLowerCase(),
  ]) {
    expect((await sendRequest(`${gateway.url}/v1/listings`, key)).status).toBe(401);
  }
  expect(proxy.bytesSent).toBe(bytesBefore);
  expect((await sendRequest(`${gateway.url}/v1/listings`, wellFormed)).status).toBe(401);
  expect(proxy.bytesSent).toBeGreaterThan(bytesBefore);
});

it("lastUsedAt is written once per minute across all processes, and no request waits for it", async () => {
  const { services } = fixture;
  const { id: userId } = await makeUser(services);
  const key = await makeKey(services, userId);
  const send = requestWith(key);
  /** The id of the transaction that last wrote the key. */
  const lastWrite = () =>
    services.db
      .query<{ xmin: string }>("xmin", "SELECT xmin::text AS xmin FROM api_keys WHERE id = $1::uuid", [
        key.id,
      ])
      .then(([row]) => row?.xmin);
  const lastUsedAt = async () =>
    (await asOperator(services).keys.list({ userId })).find(({ id }) => id === key.id)?.lastUsedAt;
  const lock = await services.db.pool.connect();
  try {
    await lock.query("BEGIN");
    await lock.query("SELECT FROM api_keys WHERE id = $1::uuid FOR UPDATE", [key.id]);
    const responses = await Promise.all(gateways.flatMap(({ url }) => [send(url), send(url), send(url)]));
    expect(responses.map(({ status }) => status)).toEqual(Array(9).fill(200));
    expect(await lastUsedAt()).toBeNull();
    await lock.query("COMMIT");
  } finally {
    lock.release();
  }
  await expect.poll(lastUsedAt, { timeout: 5_000 }).not.toBeNull();
  const [firstUsedAt, firstWrite] = [await lastUsedAt(), await lastWrite()];
  const until = performance.now() + 3 * SECOND_MS;
  while (performance.now() < until) {
    await Promise.all(gateways.map(({ url }) => send(url)));
    await sleep(50);
  }
  expect([await lastUsedAt(), await lastWrite()]).toEqual([firstUsedAt, firstWrite]);
});
