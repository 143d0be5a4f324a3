import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, catchServiceError, makeListing } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

const core = await openTestCore();
const { services, operator, setRole, makeUser, asUser, makeOwner, holdLock, waitForBlocked, runBehind } = core;
const UNKNOWN_IDS = [randomUUID(), "x", ""];

describe("users", () => {
  test("an address belongs to one user in any case; users are found by address or id, and the error for a taken address names the id", async () => {
    const user = await operator.users.create({ email: " Host.One@EXAMPLE.com ", name: " Host One " });
    expect(user).toMatchObject({ email: "Host.One@example.com", name: "Host One" });
    for (const email of ["Host.One@Example.COM", "host.one@example.com", "HOST.ONE@EXAMPLE.COM"]) {
      expect((await catchServiceError(operator.users.create({ email }))).errors).toEqual([
        { field: "email", issue: `a user with this address already exists: ${user.id}` },
      ]);
      expect(await operator.users.find({ user: email })).toEqual(user);
    }
    // Wildcards of SQL LIKE.
    for (const email of ["host_one@example.com", "%@example.com", "nobody@example.com"]) {
      expect(await catchErrorCode(operator.users.find({ user: email }))).toBe("RESOURCE_NOT_FOUND");
    }
    expect(await operator.users.get({ id: user.id.toUpperCase() })).toEqual(user);
    expect((await operator.users.create({ email: "host.two@example.com" })).name).toBeNull();
    for (const id of UNKNOWN_IDS) {
      expect(await catchErrorCode(operator.users.get({ id }))).toBe("RESOURCE_NOT_FOUND");
    }
  });

  test("a user is not found by an address that is another user's external id, but by id", async () => {
    const [ana, ben] = [await makeUser(), await makeUser()];
    await services.db.prisma.user.update({ where: { id: ben.id }, data: { externalId: ana.email } });
    const { errors } = await catchServiceError(operator.users.find({ user: ana.email }));
    const issue = expect.stringMatching(new RegExp(`^two users .*(${ana.id}|${ben.id}), (${ana.id}|${ben.id})$`));
    expect(errors).toEqual([{ field: "user", issue }]);
    expect(await operator.users.find({ user: ana.id })).toEqual(ana);
  });

  test("an address must be valid, and a name must not contain control characters", async () => {
    const create = (email: string, name: string) => catchRejectedFields(operator.users.create({ email, name }));
    expect(await create("x", "")).toEqual(["email", "name"]);
    expect(await create("a@example.com", "\u0000")).toEqual(["name"]);
  });

  test("users.update changes only the given fields, and an address that another user has is rejected", async () => {
    const { update } = operator.users;
    const user = await operator.users.create({ email: "before@example.com", name: "Before" });
    const { id } = user;
    expect(await update({ id, email: "After@EXAMPLE.com" })).toEqual({ ...user, email: "After@example.com" });
    expect(await update({ id: id.toUpperCase(), name: null })).toMatchObject({
      email: "After@example.com",
      name: null,
    });
    expect(await update({ id, email: "AFTER@example.com" })).toMatchObject({ email: "AFTER@example.com" });
    expect(await update({ id })).toEqual(await operator.users.get({ id }));
    const { id: other } = await operator.users.create({ email: "other.host@example.com" });
    expect((await catchServiceError(update({ id, email: "Other.Host@example.com" }))).errors).toEqual([
      { field: "email", issue: `a user with this address already exists: ${other}` },
    ]);
    expect(await catchRejectedFields(update({ id, email: "x", name: "" }))).toEqual(["email", "name"]);
    for (const unknown of UNKNOWN_IDS) {
      expect(await catchErrorCode(update({ id: unknown, name: "x" }))).toBe("RESOURCE_NOT_FOUND");
    }
    const trail = await operator.audit.trail({ subjectId: id });
    expect(trail.map(({ action, details }) => [action, details])).toEqual([
      ["user.updated", { fields: ["email"] }],
      ["user.updated", { fields: ["name"] }],
      ["user.updated", { fields: ["email"] }],
      ["user.created", {}],
    ]);
  });

  test("of users who change to one address at the same time, one gets it, and the others are told who", async () => {
    for (let round = 1; round <= 5; round++) {
      const users = await Promise.all(Array.from({ length: 6 }, () => makeUser()));
      const email = `wanted${round}@example.com`;
      const outcomes = await Promise.allSettled(users.map(({ id }) => operator.users.update({ id, email })));
      const { id } = await operator.users.find({ user: email });
      const issue = `a user with this address already exists: ${id}`;
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", ...Array(5).fill("rejected")]);
      for (const outcome of outcomes) {
        if (outcome.status === "rejected")
          expect(outcome.reason).toMatchObject({ errors: [{ field: "email", issue }] });
      }
    }
  });

  test("people.eraseUser revokes the keys, removes the memberships and what identifies the user, keeps the forms, and can be repeated", async () => {
    const owner = await makeOwner();
    const { userId, listingId } = owner;
    const { form } = await owner.create(fixedStay(listingId));
    const readOnly = await makeListing(services, (await makeUser()).id);
    await setRole(readOnly.id, userId, "READER");
    const { items: listings } = await operator.members.list({ userId });
    const revoked = await operator.keys.issue({ userId, mode: "READ_WRITE" });
    await operator.keys.revoke({ id: revoked.id });
    const key = await operator.keys.issue({ userId, mode: "READ_WRITE", label: "Ada's phone" });
    await operator.users.update({ id: userId, name: "Ada" });
    expect(await operator.people.eraseUser({ id: userId.toUpperCase() })).toEqual({
      id: userId,
      revokedKeys: 1,
      removedMemberships: listings.length,
      listingsWithoutOwner: [listingId],
    });
    expect(await operator.users.get({ id: userId })).toMatchObject({
      email: `${userId}@erased.invalid`,
      name: null,
      externalId: null,
    });
    expect(await operator.members.list({ userId })).toEqual({ items: [], nextCursor: null });
    const { items: keys } = await operator.keys.list({ userId });
    expect(keys.find(({ id }) => id === key.id)).toMatchObject({ label: null, revokedAt: expect.any(String) });
    expect(await catchErrorCode(owner.forms.get({ id: form.id }))).toBe("RESOURCE_NOT_FOUND");
    expect(await operator.forms.getAny({ id: form.id })).toEqual({ ...form, hasGuestEmail: false });
    expect(await operator.people.eraseUser({ id: userId })).toEqual({
      id: userId,
      revokedKeys: 0,
      removedMemberships: 0,
      listingsWithoutOwner: [],
    });
    expect(await catchErrorCode(operator.users.update({ id: userId, name: "Ada" }))).toBe("RESOURCE_NOT_FOUND");
    const actions = async (subjectId: string) =>
      (await operator.audit.trail({ subjectId })).map(({ action }) => action);
    expect((await actions(userId)).slice(0, 2)).toEqual(["user.erased", "user.erased"]);
    expect(await actions(key.id)).toEqual(["key.revoked", "key.issued"]);
    expect(await actions(listingId)).toContain("member.removed");
    const { rows } = await operator.onboarding.export({ type: "user" });
    expect(
      rows.filter((row) => row.id === userId),
      "an export has no erased users",
    ).toEqual([]);
    for (const id of UNKNOWN_IDS) {
      expect(await catchErrorCode(operator.people.eraseUser({ id }))).toBe("RESOURCE_NOT_FOUND");
    }
  });
});

describe("people.eraseUser, at the same time as others", () => {
  test("revokes a key that is being issued or rotated when it begins", async () => {
    const { id: userId } = await makeUser();
    const insert = `INSERT INTO api_keys (user_id, hash, prefix, mode, label) VALUES ($1, '\\x01', 'grf_rw_race', 'READ_WRITE', 'x')`;
    expect(await runBehind([insert, userId], () => operator.people.eraseUser({ id: userId }))).toMatchObject({
      revokedKeys: 1,
    });
    const { items } = await operator.keys.list({ userId });
    expect(items).toMatchObject([{ label: null, revokedAt: expect.any(String) }]);
  });

  test("makes a key, a membership and a listing that wait for it be rejected: there is no such user", async () => {
    const { id: userId } = await makeUser();
    const { listingId } = await makeOwner();
    const key = await operator.keys.issue({ userId, mode: "READ_WRITE" });
    const lock = await holdLock("SELECT id FROM api_keys WHERE id = $1 FOR UPDATE", [key.id]);
    const erasing = operator.people.eraseUser({ id: userId });
    await waitForBlocked(1);
    const place = { title: "t", address: "a", city: "c", country: "c", zipCode: "z", timezone: "UTC" };
    const membership = { type: "membership", listing: listingId, user: userId, role: "WRITER" } as const;
    const waiting = Promise.all([
      catchRejectedFields(operator.keys.issue({ userId, mode: "READ_WRITE" })),
      catchRejectedFields(operator.members.set({ listingId, userId, role: "WRITER" })),
      catchRejectedFields(operator.listings.create({ ownerId: userId, ...place })),
      catchRejectedFields(operator.onboarding.write({ rows: [membership] })),
    ]);
    await waitForBlocked(5);
    await lock.commit();
    expect(await erasing).toMatchObject({ revokedKeys: 1 });
    expect(await waiting).toEqual([["userId"], ["userId"], ["ownerId"], ["user"]]);
    expect((await operator.keys.list({ userId })).items).toHaveLength(1);
  });

  test("lets no change and no import that wait for it write to the user: the import creates another one", async () => {
    const { id, email } = await makeUser();
    const key = await operator.keys.issue({ userId: id, mode: "READ_WRITE" });
    const lock = await holdLock("SELECT id FROM api_keys WHERE id = $1 FOR UPDATE", [key.id]);
    const erasing = operator.people.eraseUser({ id });
    await waitForBlocked(1);
    const row = { type: "user", externalId: `imported-${id}`, email, name: "Ada" } as const;
    const waiting = Promise.all([
      catchErrorCode(operator.users.update({ id, name: "Ada" })),
      operator.onboarding.write({ rows: [row] }),
    ]);
    await waitForBlocked(3);
    await lock.commit();
    await erasing;
    const [update, written] = await waiting;
    expect(update).toBe("RESOURCE_NOT_FOUND");
    expect(written).toMatchObject({ created: 1, updated: 0 });
    expect(written.ids).not.toContain(id);
    expect(await operator.users.get({ id })).toMatchObject({ name: null, externalId: null });
  });

  test("removes a membership that is set meanwhile", async () => {
    const { id: userId } = await makeUser();
    const { listingId } = await makeOwner();
    const insert = `INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
      SELECT $1, id, created_at, 'WRITER' FROM listings WHERE id = $2`;
    const erase = () => operator.people.eraseUser({ id: userId });
    expect(await runBehind([insert, userId, listingId], erase)).toMatchObject({ removedMemberships: 1 });
    expect((await operator.members.list({ userId })).items).toEqual([]);
  });
});

test("the audit trail is read by subject, newest first and in pages, and by correlation id", async () => {
  const owner = await makeOwner();
  const correlationId = randomUUID();
  const { forms } = asUser(owner.userId, { correlationId });
  const { id } = await forms.create(owner.body);
  await owner.forms.setStatus({ id, status: "COMPLETED" });
  const trail = await operator.audit.trail({ subjectId: id.toUpperCase() });
  expect(trail.map(({ action, userId }) => [action, userId])).toEqual([
    ["form.status_set", owner.userId],
    ["form.created", owner.userId],
  ]);
  const [newest] = await operator.audit.trail({ subjectId: id, limit: 1 });
  expect(newest).toEqual(trail[0]);
  expect(await operator.audit.trail({ subjectId: id, before: newest?.id ?? "" })).toEqual(trail.slice(1));
  const traced = await operator.audit.trace({ correlationId: correlationId.toUpperCase() });
  expect(traced).toEqual({ correlationId, logField: "correlationId", entries: trail.slice(1), deliveries: [] });
  for (const subjectId of UNKNOWN_IDS) expect(await operator.audit.trail({ subjectId })).toEqual([]);
});

test("the audit trail of a user has the changes of its keys and webhook endpoints, newest first and in pages", async () => {
  const { id: userId } = await operator.users.create({ email: "with.keys@example.com" });
  const { id: keyId } = await operator.keys.issue({ userId, mode: "READ_ONLY" });
  const { id: endpointId } = await operator.webhooks.create({ userId, url: "https://example.com" });
  await operator.keys.revoke({ id: keyId });
  const trail = await operator.audit.trail({ subjectId: userId });
  expect(trail.map(({ action, subjectId }) => [action, subjectId])).toEqual([
    ["key.revoked", keyId],
    ["webhook.created", endpointId],
    ["key.issued", keyId],
    ["user.created", userId],
  ]);
  for (const limit of [1, 2, 3]) {
    const before = trail[limit - 1]?.id ?? "";
    expect(await operator.audit.trail({ subjectId: userId, limit })).toEqual(trail.slice(0, limit));
    expect(await operator.audit.trail({ subjectId: userId, before })).toEqual(trail.slice(limit));
  }
});

describe("forms", async () => {
  const owner = await makeOwner();
  const { form } = await owner.create(owner.body);
  const { id } = form;

  test("getByPublicId returns a form and what the guest's page shows of its listing, to no host", async () => {
    const publicId = form.publicId ?? "";
    const found = await operator.forms.getByPublicId({ publicId });
    expect({ ...found.form, hasGuestEmail: true }).toEqual(await operator.forms.getAny({ id }));
    const stored = await operator.listings.getAny({ id: owner.listingId });
    const { id: _, publicId: ofListing, externalId, active, createdAt, ...shown } = stored;
    expect(found.listing).toEqual(shown);
    for (const unknown of ["", id, `${publicId}x`, "\0".repeat(21), "x".repeat(21), ofListing])
      expect(await catchErrorCode(operator.forms.getByPublicId({ publicId: unknown }))).toBe("RESOURCE_NOT_FOUND");
    const asHost = asUser(owner.userId).forms.getByPublicId({ publicId });
    expect(await catchErrorCode(asHost)).toBe("FORBIDDEN");
  });

  test("listAll and getAny return the public form without the address, and getAny whether there is one", async () => {
    const shown = await operator.forms.getAny({ id: id.toUpperCase() });
    expect(shown).toEqual({ ...(await owner.forms.get({ id })), hasGuestEmail: true });
    expect(JSON.stringify(await operator.forms.listAll({}))).not.toMatch(/guest@|guestEmail/i);
    for (const unknown of UNKNOWN_IDS)
      expect(await catchErrorCode(operator.forms.getAny({ id: unknown }))).toBe("RESOURCE_NOT_FOUND");
  });
});
