import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  asOperator,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  setRole,
  type TestKey,
} from "../support/factories.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../support/gateway-processes.js";
import { countOutcomes, sendRequest, startLoad, type TimedResponse } from "../support/http-client.js";
import { median } from "../support/statistics.js";

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
  const worst = Math.max(...delays);
  console.info(`50 revocations: worst ${worst.toFixed()} ms, median ${median(delays).toFixed()} ms`);
  expect(delays).toHaveLength(50);
  expect(worst).toBeLessThan(SECOND_MS);
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

it("a key's last use is stored once by all processes, a minute after the stored one, and no request waits for it", async () => {
  const { db } = fixture.services;
  const key = await makeKey(fixture.services, fixture.userId);
  const readUse = async () => {
    const { rows } = await db.pool.query<{ at: Date; transaction: string }>(
      "SELECT last_used_at AS at, xmin::text AS transaction FROM api_keys WHERE id = $1",
      [key.id],
    );
    return { ms: Number(rows[0]?.at), transaction: rows[0]?.transaction };
  };
  const storedMs = Date.now() - 55 * SECOND_MS;
  await db.pool.query("UPDATE api_keys SET last_used_at = $2 WHERE id = $1", [key.id, new Date(storedMs)]);
  const lock = await db.pool.connect();
  await lock.query("BEGIN");
  await lock.query("SELECT FROM api_keys WHERE id = $1 FOR UPDATE", [key.id]);
  const send = requestWith(key);
  const load = startLoad(gateways.length, (index) => send(gateways[index]?.url ?? ""), 50);
  await sleep(7 * SECOND_MS);
  expect((await readUse()).ms, "while the row is locked").toBe(storedMs);
  // They do not wait for the lock, although each process now has a use to store.
  await Promise.all(gateways.map(({ url }) => send(url)));
  await lock.query("COMMIT");
  lock.release();
  await expect.poll(async () => (await readUse()).ms).not.toBe(storedMs);
  const stored = await readUse();
  expect(stored.ms - storedMs).toBeGreaterThanOrEqual(60 * SECOND_MS);
  await sleep(2 * SECOND_MS);
  expect(await readUse()).toEqual(stored);
  await load.stop();
  expect(Object.keys(countOutcomes(load))).toEqual(["200"]);
});
