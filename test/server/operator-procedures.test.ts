import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, catchServiceError, makeListing } from "../support/factories.js";

const { services, operator, setRole, makeUser, asUser, makeOwner } = await openTestCore();
const UNKNOWN_IDS = [randomUUID(), "x", ""];

describe("users", () => {
  test("an address belongs to one user in any case; users are found by address or id, and the error for a taken address names the id", async () => {
    const user = await operator.users.create({ email: " Host.One@EXAMPLE.com ", name: " Host One " });
    expect(user).toMatchObject({ email: "Host.One@example.com", name: "Host One" });
    for (const email of ["Host.One@Example.COM", "host.one@example.com", "HOST.ONE@EXAMPLE.COM"]) {
      expect((await catchServiceError(operator.users.create({ email }))).errors).toEqual([
        { field: "email", issue: `a user with this address already exists: ${user.id}` },
      ]);
      expect(await operator.users.find({ email })).toEqual(user);
    }
    // Wildcards of SQL LIKE.
    for (const email of ["host_one@example.com", "%@example.com", "nobody@example.com"]) {
      expect(await catchErrorCode(operator.users.find({ email }))).toBe("RESOURCE_NOT_FOUND");
    }
    expect(await operator.users.get({ id: user.id.toUpperCase() })).toEqual(user);
    expect((await operator.users.create({ email: "host.two@example.com" })).name).toBeNull();
    for (const id of UNKNOWN_IDS) {
      expect(await catchErrorCode(operator.users.get({ id }))).toBe("RESOURCE_NOT_FOUND");
    }
  });

  test("an address must be valid, and a name must not contain control characters", async () => {
    const create = (email: string, name: string) => catchRejectedFields(operator.users.create({ email, name }));
    expect(await create("x", "")).toEqual(["email", "name"]);
    expect(await create("a@example.com", "\u0000")).toEqual(["name"]);
  });
});

describe("members", () => {
  test("a user has one role on a listing: the one set last", async () => {
    const { userId: ownerId, listingId: id } = await makeOwner();
    const member = await makeUser();
    for (const role of ["READER", "WRITER", "OWNER", "READER"] as const) {
      const ids = { listingId: id.toUpperCase(), userId: member.id.toUpperCase() };
      const set = await operator.members.set({ ...ids, role });
      expect(set).toEqual({ listingId: id, userId: member.id, role });
    }
    const sorted = (await operator.members.list({ listingId: id })).items.map(
      ({ userId, role }) => `${role} ${userId}`,
    );
    expect(sorted.sort()).toEqual([`OWNER ${ownerId}`, `READER ${member.id}`]);
    const removed = await operator.members.remove({ listingId: id, userId: member.id });
    expect(removed).toEqual({ listingId: id, userId: member.id, role: "READER" });
    expect((await operator.members.list({ listingId: id })).items).toHaveLength(1);
  });

  test("of concurrent removals of one membership, one succeeds and is audited, the others are RESOURCE_NOT_FOUND", async () => {
    const { listingId } = await makeOwner();
    const { id: userId } = await makeUser();
    for (let round = 1; round <= 5; round++) {
      await setRole(listingId, userId, "WRITER");
      const removals = Array.from({ length: 5 }, () => operator.members.remove({ listingId, userId }));
      const outcomes = await Promise.allSettled(removals);
      const failures = outcomes.flatMap((of) => (of.status === "rejected" ? [of.reason.serviceCode] : []));
      expect(failures).toEqual(Array(4).fill("RESOURCE_NOT_FOUND"));
      const trail = await operator.audit.trail({ subjectId: listingId, limit: 1000 });
      expect(trail.filter(({ action }) => action === "member.removed")).toHaveLength(round);
    }
  });

  test("an unknown user or listing is rejected", async () => {
    const { userId: ownerId, listingId: id } = await makeOwner();
    for (const unknown of UNKNOWN_IDS) {
      const set = (listingId: string, userId: string) =>
        catchRejectedFields(operator.members.set({ listingId, userId, role: "WRITER" }));
      expect(await set(id, unknown)).toEqual(["userId"]);
      expect(await set(unknown, ownerId)).toEqual(["listingId"]);
      const remove = operator.members.remove({ listingId: unknown, userId: ownerId });
      expect(await catchErrorCode(remove)).toBe("RESOURCE_NOT_FOUND");
    }
    expect(await catchRejectedFields(setRole(id, ownerId, "owner" as "OWNER"))).toEqual(["role"]);
  });
});

describe("listings", () => {
  test("all invalid fields of a new listing are reported together", async () => {
    const invalid = {
      title: "",
      address: " ",
      city: "\n",
      country: "c".repeat(201),
      zipCode: "z".repeat(21),
      timezone: "Mars/Olympus",
      maxPeopleInListing: 0,
      maxVehicles: -1,
      allowPets: "no" as unknown as boolean,
    };
    const fields = await catchRejectedFields(makeListing(services, randomUUID(), invalid));
    expect(fields.sort()).toEqual(Object.keys(invalid).sort());
    for (const ownerId of UNKNOWN_IDS) {
      expect(await catchRejectedFields(makeListing(services, ownerId))).toEqual(["ownerId"]);
    }
    const { id } = await makeUser();
    for (const timezone of ["+02:00", "Berlin", ""]) {
      expect(await catchRejectedFields(makeListing(services, id, { timezone }))).toEqual(["timezone"]);
    }
  });

  test("an update changes only the given fields, null unsets a field, existing forms do not change, and the audit names the fields", async () => {
    const owner = await makeOwner({ maxPeopleInListing: 4, district: "Mitte" });
    const form = await owner.addForm({ numberOfGuests: 4 });
    const before = await asUser(owner.userId).listings.get({ id: owner.listingId });
    const changed = await operator.listings.update({
      id: owner.listingId.toUpperCase(),
      title: "New title",
      district: null,
      maxPeopleInListing: 2,
    });
    expect(changed).toEqual({ ...before, title: "New title", district: null, maxPeopleInListing: 2 });
    expect(await owner.forms.get({ id: form.id })).toEqual(form);
    const closed = await operator.listings.deactivate({ id: owner.listingId });
    expect(closed).toEqual({ ...changed, active: false });
    expect(await operator.listings.update({ id: owner.listingId })).toEqual(closed);
    const trail = await operator.audit.trail({ subjectId: owner.listingId });
    expect(trail.map(({ actor, action, details }) => [actor, action, details])).toEqual([
      ["operator", "listing.updated", { fields: ["active"], active: false }],
      ["operator", "listing.updated", { fields: ["title", "district", "maxPeopleInListing"] }],
      ["operator", "listing.created", { ownerId: owner.userId }],
    ]);
    const invalid = { id: owner.listingId, title: "", timezone: "Mars/Base" };
    expect(await catchRejectedFields(operator.listings.update(invalid))).toEqual(["title", "timezone"]);
    expect(await catchRejectedFields(owner.create(owner.body))).toEqual(["listingId"]);
    for (const id of UNKNOWN_IDS) {
      expect(await catchErrorCode(operator.listings.update({ id, title: "x" }))).toBe("RESOURCE_NOT_FOUND");
      expect(await catchErrorCode(operator.listings.deactivate({ id }))).toBe("RESOURCE_NOT_FOUND");
    }
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
  expect(traced).toEqual({ correlationId, logField: "correlationId", entries: trail.slice(1) });
  for (const subjectId of UNKNOWN_IDS) expect(await operator.audit.trail({ subjectId })).toEqual([]);
});
