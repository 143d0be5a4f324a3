import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import { asOperator, makeForm, makeKey, makeListing, makeUser, setRole, type TestKey } from "../factories.js";
import { Cable } from "./cable.js";
import { type Answer, call } from "./client.js";
import { type Host, makeWorld, startHost, startHosts, type World } from "./fleet.js";

const SECOND = 1_000;

let world: World;
let hosts: Host[];
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  world = await makeWorld();
  hosts = await startHosts(3, world.env);
});
afterAll(() => agent.destroy());

/**
 * Goes on asking every process, beginning before `end` takes effect, until each has refused several times in a row;
 * gives the milliseconds between that effect and the last request that a process still accepted (at most 0 if none).
 */
async function lastAccepted(
  ask: (url: string) => Promise<Answer>,
  accepted: (answer: Answer) => boolean,
  end: () => Promise<number>,
): Promise<number> {
  let isEnding = false;
  let endedAt = Number.POSITIVE_INFINITY;
  const watch = hosts.map(async ({ url }) => {
    let last = Number.NEGATIVE_INFINITY;
    for (let refusals = 0; refusals < 5; ) {
      const answer = await ask(url);
      if (accepted(answer)) {
        last = answer.sentAt;
        refusals = 0;
      } else if (isEnding) refusals += answer.sentAt > endedAt ? 1 : 0;
      else throw new Error(`refused too early: ${answer.status}`);
      if (performance.now() > endedAt + 5 * SECOND) throw new Error("accepted for five seconds");
      await sleep(20);
    }
    return last;
  });
  await Promise.race([sleep(100 + Math.random() * SECOND), Promise.all(watch)]);
  isEnding = true;
  endedAt = await end();
  return Math.max(0, ...(await Promise.all(watch)).map((last) => last - endedAt));
}

const askWith =
  (key: TestKey, path = "/v1/listings?limit=1") =>
  (url: string) =>
    call(`${url}${path}`, key.key, { agent });
const isFine = ({ status }: Answer) => status === 200;

it("a revoked key is refused within a second on every process", async () => {
  const { keys } = asOperator(world.services);
  const delays: number[] = [];
  const revokeOne = async () => {
    const key = await makeKey(world.services, world.userId);
    const delay = await lastAccepted(askWith(key), isFine, async () => {
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
  expect(delays.at(-1)).toBeLessThan(SECOND);
});

it("an expired key, and a rotated one after its grace, are refused within a second on every process", async () => {
  const { keys } = asOperator(world.services);
  const at = (instant: string) => performance.now() + (Date.parse(instant) - Date.now());
  const expiry = new Date(Date.now() + 1_500).toISOString();
  const expiring = await makeKey(world.services, world.userId, { expiresAt: expiry });
  const expired = lastAccepted(askWith(expiring), isFine, async () => at(expiry));
  const rotating = await makeKey(world.services, world.userId);
  const graced = lastAccepted(askWith(rotating), isFine, async () => {
    const { replaces } = await keys.rotate({ id: rotating.id, graceSeconds: 1 });
    return at(replaces.expiresAt);
  });
  const ending = await makeKey(world.services, world.userId);
  const ended = lastAccepted(askWith(ending), isFine, async () => {
    const { replaces } = await keys.rotate({ id: ending.id, graceSeconds: 0 });
    return at(replaces.expiresAt);
  });
  const [expiryMs = 0, graceMs = 0, noGraceMs = 0] = await Promise.all([expired, graced, ended]);
  console.info(
    `expiry ${expiryMs.toFixed()} ms, grace ${graceMs.toFixed()} ms, no grace ${noGraceMs.toFixed()} ms`,
  );
  expect(Math.max(expiryMs, graceMs, noGraceMs)).toBeLessThan(SECOND);
});

it.each(["NONE", "READER"] as const)(
  "a holder's role turned to %s holds within a second on every process",
  async (role) => {
    const { services } = world;
    const { id: userId } = await makeUser(services);
    const listing = await makeListing(services, userId);
    const form = await makeForm(services, userId, listing.id);
    const key = await makeKey(services, userId);
    const end = async () => {
      await setRole(services, listing.id, userId, role);
      return performance.now();
    };
    const delay = await lastAccepted(askWith(key, `/v1/forms/${form.id}`), isFine, end);
    expect(delay).toBeLessThan(SECOND);
    for (const { url } of hosts) {
      const { json } = await call(`${url}/v1/listings`, key.key, { agent });
      expect(json).toEqual({ items: [], nextCursor: null });
    }
  },
);

it("a busy key is looked up about once a second, however many requests it makes", async () => {
  const fresh = await makeWorld();
  const host = await startHost(fresh.env);
  await call(`${host.url}/v1/listings?limit=1`, fresh.key.key, { agent });
  const began = performance.now();
  const answers: Promise<Answer>[] = [];
  for (let batch = 0; batch < 100; batch++) {
    for (let index = 0; index < 10; index++)
      answers.push(call(`${host.url}/v1/listings?limit=1`, fresh.key.key, { agent }));
    await sleep(Math.max(0, began + batch * 20 - performance.now()));
  }
  for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
  const seconds = (performance.now() - began) / SECOND;
  await host.process.stop();
  const lookUps = await scansOfHashes(fresh);
  console.info(`1001 requests in ${seconds.toFixed(1)} s: ${lookUps} look-ups of the key`);
  expect(lookUps).toBeGreaterThan(0);
  expect(lookUps).toBeLessThanOrEqual(Math.ceil(seconds / 0.9) + 1);
});

/** How often the index of the keys' hashes was read, once all who read it have gone. */
async function scansOfHashes({ services }: World): Promise<number> {
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

it("a missing, malformed or mistyped key costs no query", async () => {
  const cable = await Cable.lay(world.services.db.url);
  const host = await startHost({ ...world.env, DATABASE_URL: cable.url });
  const right = generateKey("READ_WRITE");
  const mistyped = `${right.slice(0, 20)}${right[20] === "x" ? "y" : "x"}${right.slice(21)}`;
  const before = cable.sent;
  for (const key of [undefined, "", "x", mistyped, right.slice(1), `${right}0`, right.toLowerCase()]) {
    expect((await call(`${host.url}/v1/listings`, key)).status).toBe(401);
  }
  expect(cable.sent).toBe(before);
  expect((await call(`${host.url}/v1/listings`, right)).status).toBe(401);
  expect(cable.sent).toBeGreaterThan(before);
});

it("lastUsedAt is written once a minute over all processes, and no request waits for it", async () => {
  const { services } = world;
  const { id: userId } = await makeUser(services);
  const key = await makeKey(services, userId);
  const ask = askWith(key);
  const writes = () =>
    services.db
      .query<{ writes: string }>("xmin", "SELECT xmin::text AS writes FROM api_keys WHERE id = $1::uuid", [
        key.id,
      ])
      .then(([row]) => row?.writes);
  const lastUsedAt = async () =>
    (await asOperator(services).keys.list({ userId })).find(({ id }) => id === key.id)?.lastUsedAt;
  const lock = await services.db.pool.connect();
  try {
    await lock.query("BEGIN");
    await lock.query("SELECT FROM api_keys WHERE id = $1::uuid FOR UPDATE", [key.id]);
    const answers = await Promise.all(hosts.flatMap(({ url }) => [ask(url), ask(url), ask(url)]));
    expect(answers.map(({ status }) => status)).toEqual(Array(9).fill(200));
    expect(await lastUsedAt()).toBeNull();
    await lock.query("COMMIT");
  } finally {
    lock.release();
  }
  await expect.poll(lastUsedAt, { timeout: 5_000 }).not.toBeNull();
  const [used, written] = [await lastUsedAt(), await writes()];
  const until = performance.now() + 3 * SECOND;
  while (performance.now() < until) {
    await Promise.all(hosts.map(({ url }) => ask(url)));
    await sleep(50);
  }
  expect([await lastUsedAt(), await writes()]).toEqual([used, written]);
});
