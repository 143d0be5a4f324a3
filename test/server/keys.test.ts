import { createHash, randomUUID } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Services } from "../../server/context.js";
import { generateKey, isWellFormed, keyAuthenticator } from "../../server/keys/authenticator.js";
import {
  asOperator,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  keyPrincipal,
  makeKey,
  makeUser,
  openTestServices,
} from "../factories.js";

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

describe("keys.issue and keys.list", () => {
  test("the key is returned once; the database stores only its hash and prefix", async () => {
    const issued = await makeKey(services, userId, { label: "integration" });
    expect(issued).toMatchObject({ mode: "READ_WRITE", expiresAt: null, prefix: issued.key.slice(0, 12) });
    const [listed] = (await asOperator(services).keys.list({ userId })).filter(({ id }) => id === issued.id);
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
    });
    const { rows: stored } = await services.db.pool.query("SELECT hash FROM api_keys WHERE id = $1", [
      issued.id,
    ]);
    expect(stored).toEqual([{ hash: createHash("sha256").update(issued.key).digest() }]);
    const secret = issued.key.slice(12);
    const { rows } = await services.db.pool.query<{ name: string }>(
      `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) AS name FROM pg_tables
       WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
    );
    for (const { name } of rows) {
      const found = await services.db.pool.query(
        `SELECT FROM ${name} t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, $2) > 0`,
        [secret, Buffer.from(secret).toString("hex")],
      );
      expect([name, found.rows.length]).toEqual([name, 0]);
    }
  });

  test("an unknown user, a past or malformed expiry, an unknown mode or a control character in the label is rejected", async () => {
    const { keys } = asOperator(services);
    const mode = "READ_ONLY";
    for (const unknown of [randomUUID(), "x"]) {
      expect(await catchRejectedFields(keys.issue({ userId: unknown, mode }))).toEqual(["userId"]);
    }
    const past = new Date(Date.now() - 1000).toISOString();
    expect(await catchRejectedFields(keys.issue({ userId, mode, expiresAt: past }))).toEqual(["expiresAt"]);
    expect(await catchRejectedFields(keys.issue({ userId, mode, expiresAt: "tomorrow" }))).toEqual([
      "expiresAt",
    ]);
    expect(await catchRejectedFields(keys.issue({ userId, mode: "rw" as "READ_ONLY" }))).toEqual(["mode"]);
    expect(await catchRejectedFields(keys.issue({ userId, mode, label: "a\u0007" }))).toEqual(["label"]);
  });

  test("lists the keys of one user or all, oldest first, revoked ones included", async () => {
    const me = await makeUser(services);
    const created = [await makeKey(services, me.id), await makeKey(services, me.id, { mode: "READ_ONLY" })];
    await asOperator(services).keys.revoke({ id: created[0]?.id ?? "" });
    const { keys } = asOperator(services);
    const mine = await keys.list({ userId: me.id.toUpperCase() });
    expect(mine.map(({ id }) => id)).toEqual(created.map(({ id }) => id));
    expect(mine.map(({ revokedAt }) => revokedAt !== null)).toEqual([true, false]);
    const all = (await keys.list({})).map(({ id }) => id);
    expect(all).toEqual(expect.arrayContaining(created.map(({ id }) => id)));
    expect(await keys.list({ userId: randomUUID() })).toEqual([]);
    expect(await keys.list({ userId: "x" })).toEqual([]);
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

  test("a key is rejected from its expiry on, even if it is cached", async () => {
    const { key } = await makeKey(services, userId, { expiresAt: "2099-01-01T00:00:00Z" });
    const authenticate = keyAuthenticator(services);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2099, 0, 1) - 1 });
    expect(await authenticate(key)).not.toBeNull();
    vi.setSystemTime(Date.UTC(2099, 0, 1));
    expect(await authenticate(key)).toBeNull();
  });

  test("a revoked key is rejected on every process within 1 s, even under constant use", async () => {
    const other = await openTestServices({ DATABASE_URL: services.db.url });
    const { id, key } = await makeKey(services, userId);
    const authenticators = [keyAuthenticator(services), keyAuthenticator(other)];
    const authenticateOnAll = () => Promise.all(authenticators.map((authenticate) => authenticate(key)));
    expect((await authenticateOnAll()).every((principal) => principal?.keyId === id)).toBe(true);
    await asOperator(services).keys.revoke({ id });
    const revokedAt = performance.now();
    while (performance.now() - revokedAt < 1000) {
      await authenticateOnAll();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(await authenticateOnAll()).toEqual([null, null]);
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
    const now = performance.now.bind(performance);
    let advancedMs = 0;
    vi.spyOn(performance, "now").mockImplementation(() => now() + advancedMs);
    vi.useFakeTimers({ toFake: ["Date"], now: start });
    const advanceClock = async (ms: number) => {
      advancedMs += ms;
      vi.setSystemTime(start + advancedMs);
      // lru-cache keeps a reading of the clock for 1 ms.
      await new Promise((resolve) => setTimeout(resolve, 5));
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

describe("keys.revoke and keys.rotate", () => {
  test("a second revocation changes nothing, and an unknown key is RESOURCE_NOT_FOUND", async () => {
    const { keys } = asOperator(services);
    const { id } = await makeKey(services, userId);
    const revoked = await keys.revoke({ id: id.toUpperCase() });
    expect(revoked.revokedAt).not.toBeNull();
    expect(await keys.revoke({ id })).toEqual(revoked);
    for (const unknown of [randomUUID(), "x"]) {
      expect(await catchErrorCode(keys.revoke({ id: unknown }))).toBe("RESOURCE_NOT_FOUND");
      expect(await catchErrorCode(keys.rotate({ id: unknown }))).toBe("RESOURCE_NOT_FOUND");
    }
  });

  test("a rotated key gets a successor with its mode and label, and is valid until the grace period ends", async () => {
    const { keys } = asOperator(services);
    const old = await makeKey(services, userId, { mode: "READ_ONLY", label: "mine" });
    const before = Date.now();
    const rotated = await keys.rotate({ id: old.id, graceSeconds: 3600 });
    expect(rotated).toMatchObject({ mode: "READ_ONLY", expiresAt: null, replaces: { id: old.id } });
    expect(rotated.id).not.toBe(old.id);
    const end = Date.parse(rotated.replaces.expiresAt);
    expect(end).toBeGreaterThanOrEqual(before + 3_600_000);
    expect(end).toBeLessThanOrEqual(Date.now() + 3_600_000);
    const listed = new Map((await keys.list({ userId })).map((key) => [key.id, key]));
    expect(listed.get(rotated.id)).toMatchObject({
      userId,
      label: "mine",
      mode: "READ_ONLY",
      lastUsedAt: null,
    });
    expect(listed.get(old.id)?.expiresAt).toBe(rotated.replaces.expiresAt);
    for (const { key } of [old, rotated])
      expect(await keyAuthenticator(services)(key)).toMatchObject({ userId });
    vi.useFakeTimers({ toFake: ["Date"], now: end });
    expect(await keyAuthenticator(services)(old.key)).toBeNull();
    expect(await keyAuthenticator(services)(rotated.key)).toMatchObject({ keyId: rotated.id });
  });

  test("a key that was already rotated cannot be rotated again, but its successor can", async () => {
    const { keys } = asOperator(services);
    const first = await makeKey(services, userId);
    const successor = await keys.rotate({ id: first.id });
    expect((await catchServiceError(keys.rotate({ id: first.id }))).errors).toEqual([
      { field: "id", issue: `the key was already replaced by ${successor.id}` },
    ]);
    expect((await keys.rotate({ id: successor.id })).expiresAt).toBeNull();
  });

  test("the grace period is a day by default, may be 0, and never exceeds the key's own expiry", async () => {
    const { keys } = asOperator(services);
    const before = Date.now();
    const byDefault = await keys.rotate({ id: (await makeKey(services, userId)).id });
    const grace = Date.parse(byDefault.replaces.expiresAt) - before;
    expect(grace).toBeGreaterThanOrEqual(86_400_000);
    expect(grace).toBeLessThan(86_460_000);
    const ended = await makeKey(services, userId);
    await keys.rotate({ id: ended.id, graceSeconds: 0 });
    expect(await keyAuthenticator(services)(ended.key)).toBeNull();
    const expiresAt = new Date(before + 60_000).toISOString();
    const brief = await makeKey(services, userId, { expiresAt });
    const successor = await keys.rotate({ id: brief.id });
    expect(successor).toMatchObject({ expiresAt, replaces: { expiresAt } });
  });

  test("graceSeconds is an integer from 0 to one year, and a revoked key cannot be rotated", async () => {
    const { keys } = asOperator(services);
    const { id } = await makeKey(services, userId);
    for (const graceSeconds of [-1, 1.5, 31_536_001, "60" as unknown as number]) {
      expect(await catchRejectedFields(keys.rotate({ id, graceSeconds }))).toEqual(["graceSeconds"]);
    }
    await keys.revoke({ id });
    expect(await catchRejectedFields(keys.rotate({ id }))).toEqual(["id"]);
  });

  test("of concurrent rotations one succeeds, and the others report its successor", async () => {
    const { keys } = asOperator(services);
    const { id } = await makeKey(services, userId);
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => keys.rotate({ id })));
    const created = outcomes.flatMap((of) => (of.status === "fulfilled" ? [of.value.id] : []));
    expect(created).toHaveLength(1);
    for (const of of outcomes.filter(({ status }) => status === "rejected")) {
      const issue = `the key was already replaced by ${created[0]}`;
      expect(of).toMatchObject({ reason: { errors: [{ field: "id", issue }] } });
    }
  });

  test("a key revoked concurrently with rotations is rejected", async () => {
    const { keys } = asOperator(services);
    const { id, key } = await makeKey(services, userId);
    await Promise.allSettled([keys.rotate({ id }), keys.revoke({ id }), keys.rotate({ id })]);
    expect(await keyAuthenticator(services)(key)).toBeNull();
  });
});
