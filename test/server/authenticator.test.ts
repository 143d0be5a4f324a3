import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { generateKey, isWellFormed, keyAuthenticator } from "../../server/keys/authenticator.js";
import { openTestCore } from "../support/core.js";
import { catchRejectedFields, keyPrincipal } from "../support/factories.js";

const { services, operator, owner, sql, openProcess, makeKey } = await openTestCore();
const { userId } = owner;
const { keys } = operator;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Stops the monotonic clock and Date, except when the returned function advances them. */
function stopClocks() {
  const [dateMs, monotonicMs] = [Date.now(), performance.now()];
  let advancedMs = 0;
  vi.useFakeTimers({ toFake: ["Date"], now: dateMs });
  vi.spyOn(performance, "now").mockImplementation(() => monotonicMs + advancedMs);
  return async (ms: number) => {
    advancedMs += ms;
    // `expect.poll` advances the fake Date, too.
    vi.setSystemTime(dateMs + advancedMs);
    // lru-cache keeps a reading of the clock for 1 ms.
    await sleep(5);
  };
}

describe("a key", () => {
  test("is a prefix for its mode, 43 random base62 characters and a checksum", () => {
    const keys = new Set<string>();
    const seen = new Set<string>();
    for (let index = 0; index < 200; index++) {
      const mode = index % 2 ? "READ_WRITE" : "READ_ONLY";
      const key = generateKey(mode);
      expect(key).toMatch(mode === "READ_WRITE" ? /^grf_rw_[0-9A-Za-z]{49}$/ : /^grf_ro_[0-9A-Za-z]{49}$/);
      // `golden.test.ts` pins the checksum.
      expect(isWellFormed(key)).toBe(true);
      keys.add(key);
      for (const character of key.slice(7, -6)) seen.add(character);
    }
    expect(keys.size).toBe(200);
    expect(seen.size).toBe(62);
  });

  test("is malformed if any character is changed, dropped or added", () => {
    const key = `grf_rw_${"0".repeat(43)}2o15bj`;
    for (let index = 0; index < key.length; index++) {
      const [head, tail] = [key.slice(0, index), key.slice(index + 1)];
      expect(isWellFormed(head + tail)).toBe(false);
      expect(isWellFormed(`${head}a${key.slice(index)}`)).toBe(false);
      for (const other of ["a", "Z", "9", "_", "-", " "]) {
        if (other !== key.charAt(index)) expect(isWellFormed(head + other + tail)).toBe(false);
      }
    }
    for (const other of ["", ` ${key}`, `${key}\n`, key.toUpperCase(), key.replace("rw", "ro"), key + key]) {
      expect(isWellFormed(other)).toBe(false);
    }
  });
});

/** Authenticates without a cached look-up. */
const authenticateUncached = (key: string) => keyAuthenticator(services)(key);

describe("authentication", () => {
  test("a valid key acts for its holder in the stored mode, whatever its prefix says", async () => {
    const readWrite = await makeKey(userId);
    const readOnly = await makeKey(userId, { mode: "READ_ONLY" });
    expect(await authenticateUncached(readWrite.key)).toEqual(keyPrincipal(readWrite));
    expect(await authenticateUncached(readOnly.key)).toEqual(keyPrincipal(readOnly));
    await sql("UPDATE api_keys SET mode = 'READ_ONLY' WHERE id = $1", readWrite.id);
    expect(await authenticateUncached(readWrite.key)).toMatchObject({ mode: "READ_ONLY" });
  });

  test("a malformed key is rejected without a query", async () => {
    const query = vi.spyOn(services.db.pool, "query");
    const connect = vi.spyOn(services.db.pool, "connect");
    const authenticate = keyAuthenticator(services);
    const key = generateKey("READ_WRITE");
    const mistyped = key.replace(/.$/, key.endsWith("0") ? "1" : "0");
    for (const malformed of ["", "x", key.slice(1), `${key}0`, mistyped]) {
      expect(await authenticate(malformed)).toBeNull();
    }
    expect(query).not.toHaveBeenCalled();
    expect(connect).not.toHaveBeenCalled();
    expect(await authenticate(key)).toBeNull();
    expect(query.mock.calls.length + connect.mock.calls.length).toBeGreaterThan(0);
  });

  test("concurrent uses of a key share one query; unknown keys are not cached", async () => {
    const { id, key } = await makeKey(userId);
    const querySpy = vi.spyOn(services.db, "query");
    const authenticate = keyAuthenticator(services);
    const seen = await Promise.all(Array.from({ length: 20 }, () => authenticate(key)));
    expect(new Set(seen.map((principal) => principal?.keyId))).toEqual(new Set([id]));
    await authenticate(key);
    expect(querySpy, "it is cached").toHaveBeenCalledTimes(1);
    const unknown = generateKey("READ_ONLY");
    await authenticate(unknown);
    await authenticate(unknown);
    expect(querySpy).toHaveBeenCalledTimes(3);
  });

  test("requests that share a slow look-up do not rely on what it read more than 0.9 s before", async () => {
    const { id, key } = await makeKey(userId);
    const advanceClocks = stopClocks();
    const { query } = services.db;
    const authenticate = keyAuthenticator(services);
    let joined: ReturnType<typeof authenticate>[] = [];
    const querySpy = vi.spyOn(services.db, "query");
    const lookUps = () => querySpy.mock.calls.filter(([name]) => name === "key").length;
    querySpy.mockImplementationOnce(async (...statement) => {
      const rows = await query(...statement);
      await keys.revoke({ id });
      await advanceClocks(800);
      joined = Array.from({ length: 20 }, () => authenticate(key));
      expect(lookUps()).toBe(1);
      await advanceClocks(1000);
      return rows as never;
    });
    // It began before the revocation, as its own look-up did.
    expect(await authenticate(key)).toMatchObject({ keyId: id });
    expect(new Set(await Promise.all(joined))).toEqual(new Set([null]));
    expect(lookUps()).toBe(2);
  });

  /** Asserts that a key that has 500 ms left at the end of a look-up, which takes `lookUpMs`, is valid so long, without another. */
  async function expectValidUntilExpiry(lookUpMs: number): Promise<void> {
    const { key } = await makeKey(userId, { expiresAt: "2099-01-01T00:00:00Z" });
    const advanceClocks = stopClocks();
    const { query } = services.db;
    const querySpy = vi.spyOn(services.db, "query");
    querySpy.mockImplementationOnce(async (...statement) => {
      const [row] = await query<{ remainingMs: number }>(...statement);
      expect(row?.remainingMs).toBeGreaterThan(1e12);
      await advanceClocks(lookUpMs);
      return [{ ...row, remainingMs: 500 }] as never;
    });
    const authenticate = keyAuthenticator(services);
    await authenticate(key);
    await advanceClocks(499);
    expect(await authenticate(key)).not.toBeNull();
    await advanceClocks(1);
    expect(await authenticate(key)).toBeNull();
    expect(querySpy, "it is cached").toHaveBeenCalledTimes(1);
  }

  test("a key is rejected from its expiry on, even if it is cached", () => expectValidUntilExpiry(0));

  // The wait for a connection, which ends just before Postgres computes the remaining time.
  test("a key whose look-up is slow is valid until its expiry", () => expectValidUntilExpiry(300));

  test.each([-1, 1])("a system clock that is wrong by %d h changes the expiry of no key", async (hours) => {
    const [expired, valid] = [await makeKey(userId), await makeKey(userId)];
    await sql("UPDATE api_keys SET expires_at = now() WHERE id = $1", expired.id);
    await sql("UPDATE api_keys SET expires_at = now() + interval '30 min' WHERE id = $1", valid.id);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + hours * 3_600_000 });
    expect(await authenticateUncached(expired.key)).toBeNull();
    expect(await authenticateUncached(valid.key)).not.toBeNull();
    const { replaces } = await keys.rotate({ id: valid.id, graceSeconds: 60 });
    const [{ left }] = await sql(
      "SELECT extract(epoch FROM $1::timestamptz - now())::float8 AS left",
      replaces.expiresAt,
    );
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60);
    expect(await catchRejectedFields(keys.rotate({ id: expired.id }))).toEqual(["id"]);
  });

  test("a revoked, rotated or expired key is rejected on every process within 1 s, even under constant use", async () => {
    const other = await openProcess();
    const endWays: [name: string, end: (id: string) => Promise<unknown>][] = [
      ["revoked", (id) => keys.revoke({ id })],
      ["rotated without a grace period", (id) => keys.rotate({ id, graceSeconds: 0 })],
      ["expiry set to now", (id) => sql("UPDATE api_keys SET expires_at = now() WHERE id = $1", id)],
    ];
    // At the same time, because each takes a second.
    const outcomes = endWays.map(async ([name, end]) => {
      const { id, key } = await makeKey(userId);
      const authenticators = [keyAuthenticator(services), keyAuthenticator(other)];
      const authenticateOnAll = () => Promise.all(authenticators.map((authenticate) => authenticate(key)));
      const before = await authenticateOnAll();
      await end(id);
      const endedAt = performance.now();
      while (performance.now() - endedAt < 1000) {
        await authenticateOnAll();
        await sleep(20);
      }
      return { name, before: before.map((found) => found?.keyId === id), after: await authenticateOnAll() };
    });
    const expected = endWays.map(([name]) => ({ name, before: [true, true], after: [null, null] }));
    expect(await Promise.all(outcomes)).toEqual(expected);
  });
});

test("lastUsedAt is written at most once per minute and key", async () => {
  const lastUsed = async () =>
    (await sql("SELECT last_used_at AS at FROM api_keys WHERE id = $1", id))[0].at?.getTime();
  const advanceClocks = stopClocks();
  const start = Date.now();
  const { id, key } = await makeKey(userId);
  const write = vi.spyOn(services.db.prisma.apiKey, "updateMany");
  const authenticate = keyAuthenticator(services);
  await authenticate(key);
  await expect.poll(lastUsed).toBe(start);
  await advanceClocks(59_000);
  await authenticate(key);
  await authenticateUncached(key);
  expect(write).toHaveBeenCalledTimes(1);
  await advanceClocks(2_000);
  await authenticate(key);
  await expect.poll(lastUsed).toBe(start + 61_000);
  expect(write).toHaveBeenCalledTimes(2);
});
