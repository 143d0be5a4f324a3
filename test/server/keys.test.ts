import { createHash, randomUUID } from "node:crypto";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Services } from "../../server/context.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import {
  asOperator,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  makeKey,
  makeUser,
  openTestServices,
} from "../support/factories.js";
import { findSecrets, readAllRows } from "../support/personal-data.js";

let services: Services;
let userId: string;

beforeAll(async () => {
  services = await openTestServices();
  userId = (await makeUser(services)).id;
});

describe("keys.issue and keys.list", () => {
  test("the key is returned once; the database stores only its hash and prefix", async () => {
    const issued = await makeKey(services, userId, { label: "integration" });
    expect(issued).toMatchObject({ mode: "READ_WRITE", expiresAt: null, prefix: issued.key.slice(0, 12) });
    const [listed] = (await asOperator(services).keys.list({ userId })).items.filter(
      ({ id }) => id === issued.id,
    );
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
    for (const [table, rows] of await readAllRows(services.db.url)) {
      expect([table, findSecrets(rows, { key: issued.key.slice(12) })]).toEqual([table, []]);
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
    const { items: mine } = await keys.list({ userId: me.id.toUpperCase() });
    expect(mine.map(({ id }) => id)).toEqual(created.map(({ id }) => id));
    expect(mine.map(({ revokedAt }) => revokedAt !== null)).toEqual([true, false]);
    const all = (await keys.list({})).items.map(({ id }) => id);
    expect(all).toEqual(expect.arrayContaining(created.map(({ id }) => id)));
    expect(await keys.list({ userId: randomUUID() })).toEqual({ items: [], nextCursor: null });
    expect(await keys.list({ userId: "x" })).toEqual({ items: [], nextCursor: null });
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
    const listed = new Map((await keys.list({ userId })).items.map((key) => [key.id, key]));
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
    onTestFinished(() => void vi.useRealTimers());
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
