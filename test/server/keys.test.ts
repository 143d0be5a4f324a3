import { createHash, randomUUID } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields } from "../support/factories.js";
import { findSecrets, readAllRows } from "../support/personal-data.js";

const { services, operator, owner, sql, makeKey } = await openTestCore();
const { userId } = owner;
const { keys } = operator;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Authenticates without a cached look-up. */
const authenticateUncached = (key: string) => keyAuthenticator(services)(key);

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
