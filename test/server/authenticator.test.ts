import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { generateKey, isWellFormed, keyAuthenticator } from "../../server/keys/authenticator.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, keyPrincipal } from "../support/factories.js";
import { findSecrets, readAllRows } from "../support/personal-data.js";

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

describe("keys.issue and keys.list", () => {
  test("the key is returned once; the database stores only its hash and prefix", async () => {
    const issued = await makeKey(userId, { label: "integration" });
    expect(issued).toMatchObject({ mode: "READ_WRITE", expiresAt: null, prefix: issued.key.slice(0, 12) });
    const listed = (await keys.list({ userId })).items.find(({ id }) => id === issued.id);
    expect(listed).toEqual({
      id: issued.id,
      userId,
      prefix: issued.prefix,
      mode: "READ_WRITE",
      label: "integration",
      createdAt: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      expiresAt: null,
      revokedAt: null,
      lastUsedAt: null,
      replacedBy: null,
    });
    const stored = await sql("SELECT hash FROM api_keys WHERE id = $1", issued.id);
    expect(stored).toEqual([{ hash: createHash("sha256").update(issued.key).digest() }]);
    for (const [table, rows] of await readAllRows(services.db.url)) {
      expect([table, findSecrets(rows, { key: issued.key.slice(12) })]).toEqual([table, []]);
    }
  });

  test("an unknown user, a past or malformed expiry, an unknown mode or a control character in the label is rejected", async () => {
    const past = new Date(Date.now() - 1000).toISOString();
    const invalid = { userId: [randomUUID(), "x"], expiresAt: [past, "tomorrow"], mode: ["rw"], label: ["a\u0007"] };
    for (const [field, values] of Object.entries(invalid)) {
      for (const value of values) {
        const input = { userId, mode: "READ_ONLY" as const, [field]: value };
        expect(await catchRejectedFields(keys.issue(input))).toEqual([field]);
      }
    }
  });
});

describe("keys.find", () => {
  test("finds a key by its id, its first 12 characters or the whole key, without the key itself", async () => {
    const { id, key, prefix } = await makeKey(userId, { label: "leaked" });
    for (const reference of [id, id.toUpperCase(), key, prefix]) {
      const found = await keys.find({ key: reference });
      expect(found).toMatchObject({ id, userId, prefix, label: "leaked", revokedAt: null });
      expect(JSON.stringify(found)).not.toContain(key);
    }
    for (const unknown of [randomUUID(), key.slice(0, 11), `${key}x`, `${prefix}_`, "%"]) {
      expect(await catchErrorCode(keys.find({ key: unknown }))).toBe("RESOURCE_NOT_FOUND");
    }
  });

  test("rejects a prefix that several keys have", async () => {
    const [one, two] = [await makeKey(userId), await makeKey(userId)];
    await services.db.pool.query("UPDATE api_keys SET prefix = 'grf_rw_SAME1' WHERE id = ANY($1)", [[one.id, two.id]]);
    expect(await catchRejectedFields(keys.find({ key: "grf_rw_SAME1" }))).toEqual(["key"]);
    expect((await keys.find({ key: two.key })).id).toBe(two.id);
  });
});

describe("keys.revoke and keys.rotate", () => {
  test("a second revocation changes nothing, and an unknown key is RESOURCE_NOT_FOUND", async () => {
    const { id } = await makeKey(userId);
    const revoked = await keys.revoke({ id: id.toUpperCase() });
    expect(revoked.revokedAt).not.toBeNull();
    expect(await keys.revoke({ id })).toEqual(revoked);
    for (const unknown of [randomUUID(), "x"]) {
      expect(await catchErrorCode(keys.revoke({ id: unknown }))).toBe("RESOURCE_NOT_FOUND");
      expect(await catchErrorCode(keys.rotate({ id: unknown }))).toBe("RESOURCE_NOT_FOUND");
    }
  });

  test("a rotated key gets a successor with its mode and label, and is valid until the grace period ends", async () => {
    const old = await makeKey(userId, { mode: "READ_ONLY", label: "mine" });
    const before = Date.now();
    const rotated = await keys.rotate({ id: old.id, graceSeconds: 3600 });
    expect(rotated).toMatchObject({ mode: "READ_ONLY", expiresAt: null, replaces: { id: old.id } });
    expect(rotated.id).not.toBe(old.id);
    const end = Date.parse(rotated.replaces.expiresAt);
    expect(end).toBeGreaterThanOrEqual(before + 3_600_000);
    expect(end).toBeLessThanOrEqual(Date.now() + 3_600_000);
    const listed = new Map((await keys.list({ userId })).items.map((key) => [key.id, key]));
    const successor = { userId, label: "mine", mode: "READ_ONLY", lastUsedAt: null };
    expect(listed.get(rotated.id)).toMatchObject(successor);
    expect(listed.get(old.id)?.expiresAt).toBe(rotated.replaces.expiresAt);
    for (const { key } of [old, rotated]) expect(await authenticateUncached(key)).toMatchObject({ userId });
    await sql("UPDATE api_keys SET expires_at = expires_at - interval '1 h' WHERE id = $1", old.id);
    expect(await authenticateUncached(old.key)).toBeNull();
    expect(await authenticateUncached(rotated.key)).toMatchObject({ keyId: rotated.id });
  });

  test("the grace period is a day by default, may be 0, and never exceeds the key's own expiry", async () => {
    const before = Date.now();
    const byDefault = await keys.rotate({ id: (await makeKey(userId)).id });
    const grace = Date.parse(byDefault.replaces.expiresAt) - before;
    expect(grace).toBeGreaterThanOrEqual(86_400_000);
    expect(grace).toBeLessThan(86_460_000);
    const ended = await makeKey(userId);
    await keys.rotate({ id: ended.id, graceSeconds: 0 });
    expect(await authenticateUncached(ended.key)).toBeNull();
    const expiresAt = new Date(before + 60_000).toISOString();
    const brief = await makeKey(userId, { expiresAt });
    const successor = await keys.rotate({ id: brief.id });
    expect(successor).toMatchObject({ expiresAt, replaces: { expiresAt } });
  });

  test("graceSeconds is an integer from 0 to one year, and a revoked key cannot be rotated", async () => {
    const { id } = await makeKey(userId);
    for (const graceSeconds of [-1, 1.5, 31_536_001, "60" as unknown as number]) {
      expect(await catchRejectedFields(keys.rotate({ id, graceSeconds }))).toEqual(["graceSeconds"]);
    }
    await keys.revoke({ id });
    expect(await catchRejectedFields(keys.rotate({ id }))).toEqual(["id"]);
  });

  test("of concurrent rotations one succeeds, and the others report its successor", async () => {
    const { id } = await makeKey(userId);
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => keys.rotate({ id })));
    const created = outcomes.flatMap((of) => (of.status === "fulfilled" ? [of.value.id] : []));
    expect(created).toHaveLength(1);
    for (const of of outcomes.filter(({ status }) => status === "rejected")) {
      const issue = `the key was already replaced by ${created[0]}`;
      expect(of).toMatchObject({ reason: { errors: [{ field: "id", issue }] } });
    }
  });

  test("a key revoked concurrently with rotations is rejected", async () => {
    const { id, key } = await makeKey(userId);
    await Promise.allSettled([keys.rotate({ id }), keys.revoke({ id }), keys.rotate({ id })]);
    expect(await authenticateUncached(key)).toBeNull();
  });
});
