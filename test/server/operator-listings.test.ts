import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, makeListing } from "../support/factories.js";

const core = await openTestCore();
const { services, operator, setRole, makeUser, makeOwner } = core;
const UNKNOWN_IDS = [randomUUID(), "x", ""];

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
      language: "german",
    };
    const fields = await catchRejectedFields(makeListing(services, randomUUID(), invalid));
    expect(fields.sort()).toEqual(Object.keys(invalid).sort());
    for (const ownerId of UNKNOWN_IDS) {
      expect(await catchRejectedFields(makeListing(services, ownerId))).toEqual(["ownerId"]);
    }
    const { id } = await makeUser();
    for (const timezone of ["+02:00", "Berlin", "", "Europe/Atlantis", "MIT", "IST", "EST", "US/Pacific-New"]) {
      expect(await catchRejectedFields(makeListing(services, id, { timezone })), timezone).toEqual(["timezone"]);
    }
    for (const timezone of ["UTC", "GMT", "Asia/Kolkata", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]) {
      expect(await makeListing(services, id, { timezone })).toMatchObject({ timezone });
    }
  });

  test("an update changes only the given fields, null unsets a field, existing forms do not change, and the audit names the fields", async () => {
    const owner = await makeOwner({ maxPeopleInListing: 4, district: "Mitte" });
    const form = await owner.addForm({ numberOfGuests: 4 });
    const before = await operator.listings.getAny({ id: owner.listingId });
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

  test("a language is stored in canonical form, and rejected if it is malformed, unknown or too long", async () => {
    const { listingId: id } = await makeOwner();
    const setLanguage = async (language: string | null) => (await operator.listings.update({ id, language })).language;
    expect(await operator.listings.getAny({ id })).toHaveProperty("language", null);
    for (const [given, stored] of [
      ["DE", "de"],
      [" pt-br ", "pt-BR"],
      ["EN-us", "en-US"],
      ["zh-hant-tw", "zh-Hant-TW"],
      ["deu", "de"],
      ["iw", "he"],
      ["GSW", "gsw"],
      ["es-419", "es-419"],
    ] as const) {
      expect(await setLanguage(given)).toBe(stored);
      expect(await operator.listings.find({ listing: id })).toHaveProperty("language", stored);
    }
    const noLanguage = "must be a language such as de or pt-BR";
    const isRejected = (given: string, issue: string) =>
      expect(setLanguage(given), given).rejects.toMatchObject({
        serviceCode: "VALIDATION_ERROR",
        errors: [{ field: "language", issue }],
      });
    for (const tag of ["", " ", "d", "xx", "xx-DE", "de_DE", "de-", "german", "none", "x-de", "*", "de,en"])
      await isRejected(tag, noLanguage);
    await isRejected(`de-x${"-abcdefgh".repeat(3)}-abcd`, "must be at most 35 characters");
    expect((await operator.listings.update({ id, title: "New" })).language).toBe("es-419");
    expect(await setLanguage(`de-x${"-abcdefgh".repeat(3)}-abc`)).toHaveLength(35);
    expect(await setLanguage(null)).toBeNull();
  });
});
