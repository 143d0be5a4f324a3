import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Services } from "../../server/context.js";
import { generateKey, isWellFormed, keyAuthenticator } from "../../server/keys/authenticator.js";
import { asOperator, keyPrincipal, makeKey, makeUser, openTestServices } from "../support/factories.js";

let services: Services;
let userId: string;

beforeAll(async () => {
  services = await openTestServices();
  userId = (await makeUser(services)).id;
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Replaces the monotonic clock by one that stands still, except when the returned function advances it. */
function useStandingClock() {
  let nowMs = performance.now();
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  return async (ms: number) => {
    nowMs += ms;
    // lru-cache keeps a reading of the clock for 1 ms.
    await new Promise((resolve) => setTimeout(resolve, 5));
  };
}

/** CRC-32 (IEEE 802.3) bit by bit, independent of zlib. */
function crc(text: string): number {
  let rest = ~0;
  for (const byte of Buffer.from(text)) {
    rest ^= byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  }
  return ~rest >>> 0;
}

function checksum(text: string): string {
  let digits = "";
  for (let rest = crc(text); rest > 0; rest = Math.floor(rest / 62))
    digits = DIGITS.charAt(rest % 62) + digits;
  return digits.padStart(6, "0");
}

describe("a key", () => {
  test("is a prefix for its mode, 43 random base62 characters and a checksum", () => {
    expect(crc("123456789")).toBe(0xcbf43926);
    const keys = new Set<string>();
    const seen = new Set<string>();
    for (let index = 0; index < 200; index++) {
      const mode = index % 2 ? "READ_WRITE" : "READ_ONLY";
      const key = generateKey(mode);
      expect(key).toMatch(mode === "READ_WRITE" ? /^grf_rw_[0-9A-Za-z]{49}$/ : /^grf_ro_[0-9A-Za-z]{49}$/);
      expect(key.slice(-6)).toBe(checksum(key.slice(0, -6)));
      expect(isWellFormed(key)).toBe(true);
      keys.add(key);
      for (const character of key.slice(7, -6)) seen.add(character);
    }
    expect(keys.size).toBe(200);
    expect(seen.size).toBe(62);
  });

  test.each([
    `grf_rw_${"0".repeat(43)}2o15bj`,
    `grf_ro_${"z".repeat(43)}45HKFD`,
    "grf_rw_dGlMoiyrlfxX1rTnyFf3vA7NUtFOY6aF0kDQHBwtnOA3d2h8D",
    "grf_ro_mp48ddS880t0DnDzAtAIKzCYuheDByziCzzvOJ1NQAx07Pok2",
    `grf_rw_${"0".repeat(42)}300KYeT`,
  ])("with a checksum computed elsewhere is well-formed: %s", (key) => {
    expect(isWellFormed(key)).toBe(true);
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

describe("authentication", () => {
  test("a valid key acts for its holder in the stored mode, whatever its prefix says", async () => {
    const [readWrite, readOnly] = [
      await makeKey(services, userId),
      await makeKey(services, userId, { mode: "READ_ONLY" }),
    ];
    expect(await keyAuthenticator(services)(readWrite.key)).toEqual(keyPrincipal(readWrite));
    expect(await keyAuthenticator(services)(readOnly.key)).toEqual(keyPrincipal(readOnly));
    await services.db.pool.query("UPDATE api_keys SET mode = 'READ_ONLY' WHERE id = $1", [readWrite.id]);
    expect(await keyAuthenticator(services)(readWrite.key)).toMatchObject({ mode: "READ_ONLY" });
  });

  test("a malformed key is rejected without a query", async () => {
    const query = vi.spyOn(services.db.pool, "query");
    const connect = vi.spyOn(services.db.pool, "connect");
    const authenticate = keyAuthenticator(services);
    const key = generateKey("READ_WRITE");
    for (const malformed of [
      "",
      "x",
      key.slice(1),
      `${key}0`,
      key.replace(/.$/, key.endsWith("0") ? "1" : "0"),
    ]) {
      expect(await authenticate(malformed)).toBeNull();
    }
    expect(query).not.toHaveBeenCalled();
    expect(connect).not.toHaveBeenCalled();
    expect(await authenticate(key)).toBeNull();
    expect(query.mock.calls.length + connect.mock.calls.length).toBeGreaterThan(0);
  });

  test("unknown, revoked and expired keys are rejected", async () => {
    const unknown = generateKey("READ_WRITE");
    const revoked = await makeKey(services, userId);
    await asOperator(services).keys.revoke({ id: revoked.id });
    const expired = await makeKey(services, userId);
    await services.db.pool.query("UPDATE api_keys SET expires_at = now() - interval '1 ms' WHERE id = $1", [
      expired.id,
    ]);
    for (const key of [unknown, revoked.key, expired.key]) {
      expect(await keyAuthenticator(services)(key)).toBeNull();
    }
  });

  test("concurrent uses of a key share one query; unknown keys are not cached", async () => {
    const { id, key } = await makeKey(services, userId);
    const querySpy = vi.spyOn(services.db, "query");
    const authenticate = keyAuthenticator(services);
    const seen = await Promise.all(Array.from({ length: 20 }, () => authenticate(key)));
    expect(new Set(seen.map((principal) => principal?.keyId))).toEqual(new Set([id]));
    expect(querySpy).toHaveBeenCalledTimes(1);
    const unknown = generateKey("READ_ONLY");
    await authenticate(unknown);
    await authenticate(unknown);
    expect(querySpy).toHaveBeenCalledTimes(3);
  });

  test("a key in constant use is looked up once per second, not once per use", async () => {
    const { key } = await makeKey(services, userId);
    const advanceClock = useStandingClock();
    const querySpy = vi.spyOn(services.db, "query");
    const authenticate = keyAuthenticator(services);
    for (let uses = 1; uses <= 100; uses++) {
      await authenticate(key);
      await advanceClock(95);
    }
    expect(querySpy.mock.calls.length).toBeGreaterThanOrEqual(10);
    expect(querySpy.mock.calls.length).toBeLessThanOrEqual(12);
  });

  test("requests that share a slow look-up do not rely on what it read more than 0.9 s before", async () => {
    const { id, key } = await makeKey(services, userId);
    const advanceClock = useStandingClock();
    const { query } = services.db;
    const authenticate = keyAuthenticator(services);
    let joined: ReturnType<typeof authenticate>[] = [];
    const querySpy = vi.spyOn(services.db, "query");
    const lookUps = () => querySpy.mock.calls.filter(([name]) => name === "key").length;
    querySpy.mockImplementationOnce(async (...statement) => {
      const rows = await query(...statement);
      await asOperator(services).keys.revoke({ id });
      await advanceClock(800);
      joined = Array.from({ length: 20 }, () => authenticate(key));
      expect(lookUps()).toBe(1);
      await advanceClock(1000);
      return rows as never;
    });
    // It began before the revocation, as its own look-up did.
    expect(await authenticate(key)).toMatchObject({ keyId: id });
    expect(new Set(await Promise.all(joined))).toEqual(new Set([null]));
    expect(lookUps()).toBe(2);
  });

  test("a key is rejected from its expiry on, even if it is cached", async () => {
    const { key } = await makeKey(services, userId, { expiresAt: "2099-01-01T00:00:00Z" });
    const authenticate = keyAuthenticator(services);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2099, 0, 1) - 1 });
    expect(await authenticate(key)).not.toBeNull();
    vi.setSystemTime(Date.UTC(2099, 0, 1));
    expect(await authenticate(key)).toBeNull();
  });

  test("a revoked, rotated or expired key is rejected on every process within 1 s, even under constant use", async () => {
    const other = await openTestServices({ DATABASE_URL: services.db.url });
    const { keys } = asOperator(services);
    const endWays: [name: string, end: (id: string) => Promise<unknown>][] = [
      ["revoked", (id) => keys.revoke({ id })],
      ["rotated without a grace period", (id) => keys.rotate({ id, graceSeconds: 0 })],
      [
        "expiry set to now",
        (id) => services.db.pool.query("UPDATE api_keys SET expires_at = now() WHERE id = $1", [id]),
      ],
    ];
    // At the same time, because each takes a second.
    const outcomes = endWays.map(async ([name, end]) => {
      const { id, key } = await makeKey(services, userId);
      const authenticators = [keyAuthenticator(services), keyAuthenticator(other)];
      const authenticateOnAll = () => Promise.all(authenticators.map((authenticate) => authenticate(key)));
      const before = await authenticateOnAll();
      await end(id);
      const endedAt = performance.now();
      while (performance.now() - endedAt < 1000) {
        await authenticateOnAll();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return { name, before: before.map((found) => found?.keyId === id), after: await authenticateOnAll() };
    });
    const expected = endWays.map(([name]) => ({ name, before: [true, true], after: [null, null] }));
    expect(await Promise.all(outcomes)).toEqual(expected);
  });
});

describe("lastUsedAt", () => {
  const lastUsed = async (id: string) => {
    const { rows } = await services.db.pool.query<{ at: Date | null }>(
      "SELECT last_used_at AS at FROM api_keys WHERE id = $1",
      [id],
    );
    return rows[0]?.at?.getTime() ?? null;
  };

  test("is written at most once per minute and key", async () => {
    const start = Date.now();
    const advanceMonotonic = useStandingClock();
    vi.useFakeTimers({ toFake: ["Date"], now: start });
    let advancedMs = 0;
    const advanceClock = (ms: number) => {
      advancedMs += ms;
      // `expect.poll` advances the fake Date, too.
      vi.setSystemTime(start + advancedMs);
      return advanceMonotonic(ms);
    };
    const { id, key } = await makeKey(services, userId);
    const write = vi.spyOn(services.db.prisma.apiKey, "updateMany");
    const authenticate = keyAuthenticator(services);
    await authenticate(key);
    await expect.poll(() => lastUsed(id)).toBe(start);
    await advanceClock(59_000);
    await authenticate(key);
    await keyAuthenticator(services)(key);
    expect(write).toHaveBeenCalledTimes(1);
    await advanceClock(2_000);
    await authenticate(key);
    await expect.poll(() => lastUsed(id)).toBe(start + 61_000);
    expect(write).toHaveBeenCalledTimes(2);
  });

  test("is not written for a revoked key", async () => {
    const { id, key } = await makeKey(services, userId);
    await asOperator(services).keys.revoke({ id });
    const write = vi.spyOn(services.db.prisma.apiKey, "updateMany");
    await keyAuthenticator(services)(key);
    expect(write).not.toHaveBeenCalled();
    expect(await lastUsed(id)).toBeNull();
  });
});
