import { describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, catchServiceError } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

const { operator, owner, setRole, makeUser, asUser } = await openTestCore();
const { listingId, forms } = owner;

const readTrail = async (subjectId: string) =>
  (await operator.audit.trail({ subjectId })).map(({ actor, action, details }) => ({ actor, action, details }));

const NEXT_STATUSES: Record<string, string[]> = {
  SENT: ["COMPLETED", "CANCELLED"],
  COMPLETED: ["ACCEPTED", "REJECTED", "CANCELLED"],
  ACCEPTED: ["VALIDATED", "INVALIDATED", "CANCELLED"],
  REJECTED: ["VALIDATED", "INVALIDATED", "CANCELLED"],
  VALIDATED: ["CHECKED_OUT", "CANCELLED"],
  INVALIDATED: ["CHECKED_OUT", "CANCELLED"],
  CHECKED_OUT: [],
  ON_HOLD: ["CANCELLED"],
  // The last, because no status follows it.
  CANCELLED: [],
};
const STATUSES = Object.keys(NEXT_STATUSES).filter((status) => status !== "ON_HOLD");

/** The rejection of a user's change of status. */
function rejectionOf(from: string) {
  if (from === "CANCELLED")
    return { field: "cancelled", issue: "the form is cancelled: create a new one for another booking" };
  const shown = from === "ON_HOLD" ? "UNKNOWN" : from;
  return { field: "status", issue: expect.stringContaining(`a form that is ${shown} can`) };
}

describe("the status of a form", () => {
  test("a user can set the next status, along every path from SENT to CHECKED_OUT, and each change is audited once", async () => {
    for (const [decision = "", verdict = ""] of [
      ["ACCEPTED", "VALIDATED"],
      ["REJECTED", "INVALIDATED"],
    ]) {
      const { id } = await owner.addForm();
      const path = ["SENT", "COMPLETED", decision, verdict, "CHECKED_OUT"];
      // Setting the current status again is harmless.
      for (const status of path.slice(1).flatMap((next) => [next, next])) {
        expect((await forms.setStatus({ id, status })).status).toBe(status);
      }
      const entries = path.slice(1).map((to, index) => ({
        actor: "user",
        action: "form.status_set",
        details: { from: path[index], to, correction: false },
      }));
      expect((await readTrail(id)).slice(0, -1)).toEqual(entries.reverse());
    }
  });

  test("a user cannot set any other status, and a rejected change is neither stored nor audited", async () => {
    const { id } = await owner.addForm();
    for (const [from, next] of Object.entries(NEXT_STATUSES)) {
      await operator.forms.setStatus({ id, status: from, force: true });
      const before = await readTrail(id);
      const shown = from === "ON_HOLD" ? "UNKNOWN" : from;
      for (const to of [...STATUSES, "ON_HOLD", "UNKNOWN"].filter((to) => to !== from && !next.includes(to))) {
        const { errors } = await catchServiceError(forms.setStatus({ id, status: to }));
        expect(errors).toEqual([rejectionOf(from)]);
      }
      expect((await forms.get({ id })).status).toBe(shown);
      expect(await readTrail(id)).toEqual(before);
    }
  });

  test("the operator can set any known status, others only with force, and one out of order is audited as a correction", async () => {
    const { id } = await owner.addForm();
    for (const status of ["ACEPTED", "ON_HOLD", "UNKNOWN"]) {
      const { errors } = await catchServiceError(operator.forms.setStatus({ id, status }));
      const issue = `must be one of ${STATUSES.join(", ")}; if forced, 1 to 32 of the characters A-Z and _`;
      expect(errors).toEqual([{ field: "status", issue }]);
    }
    const sets = { COMPLETED: false, CHECKED_OUT: true, SENT: true, ON_HOLD: true, ACCEPTED: true };
    for (const status of Object.keys(sets)) {
      const set = await operator.forms.setStatus({ id, status, ...(status === "ON_HOLD" && { force: true }) });
      expect(set.status).toBe(status === "ON_HOLD" ? "UNKNOWN" : status);
    }
    const trail = (await readTrail(id)).reverse().slice(1);
    expect(trail.map(({ actor, details }) => [actor, details.to, details.correction])).toEqual(
      Object.entries(sets).map(([status, correction]) => ["operator", status, correction]),
    );
    for (const malformed of ["not-a-status", "sent", "", "X".repeat(33), "SENT "]) {
      const set = operator.forms.setStatus({ id, status: malformed, force: true });
      expect(await catchRejectedFields(set)).toEqual(["status"]);
    }
    const unknown = operator.forms.setStatus({ id: "x", status: "SENT" });
    expect(await catchErrorCode(unknown)).toBe("RESOURCE_NOT_FOUND");
    // Only the operator can use force.
    expect(await catchRejectedFields(forms.setStatus({ id, status: "SENT", force: true }))).toEqual(["status"]);
  });

  test("of two different statuses set at the same time, exactly one wins", async () => {
    for (let round = 0; round < 10; round++) {
      const { id } = await owner.addForm();
      await forms.setStatus({ id, status: "COMPLETED" });
      const sets = ["ACCEPTED", "REJECTED"].map((status) => forms.setStatus({ id, status }));
      const outcomes = await Promise.allSettled(sets);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(await readTrail(id)).toHaveLength(3);
    }
  });

  test("with `from`, of two changes of the operator at the same time one wins, and a form in another status is not changed", async () => {
    for (let round = 0; round < 10; round++) {
      const { id } = await owner.addForm();
      const sets = ["COMPLETED", "REJECTED"].map((status) => operator.forms.setStatus({ id, status, from: "SENT" }));
      const outcomes = await Promise.allSettled(sets);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      const { errors } = await catchServiceError(operator.forms.setStatus({ id, status: "SENT", from: "ON_HOLD" }));
      expect(errors).toEqual([{ field: "from", issue: expect.stringMatching(/^the form is (COMPLETED|REJECTED)$/) }]);
      expect(await readTrail(id)).toHaveLength(2);
    }
  });

  test("a reader and a user without a role get RESOURCE_NOT_FOUND for status, vehicles and pets", async () => {
    const { id } = await owner.addForm();
    const other = await makeUser();
    const others = asUser(other.id).forms;
    for (const role of ["NONE", "READER"] as const) {
      if (role !== "NONE") await setRole(listingId, other.id, role);
      expect(await catchErrorCode(others.setStatus({ id, status: "COMPLETED" }))).toBe("RESOURCE_NOT_FOUND");
      expect(await catchErrorCode(others.setParty({ id, numberOfPets: 1 }))).toBe("RESOURCE_NOT_FOUND");
    }
  });
});

describe("numberOfVehicles and numberOfPets", () => {
  test("both are null until set, kept if absent and unset by null, and each change is audited", async () => {
    const form = await owner.addForm();
    expect([form.numberOfVehicles, form.numberOfPets]).toEqual([null, null]);
    const { id } = form;
    const first = await forms.setParty({ id, numberOfVehicles: 2 });
    expect(first).toEqual({ ...form, numberOfVehicles: 2, updatedAt: first.updatedAt });
    expect(Date.parse(first.updatedAt)).toBeGreaterThan(Date.parse(form.updatedAt));
    await forms.setParty({ id, numberOfPets: 0 });
    const updated = await forms.update({ id, ...fixedStay(listingId, { numberOfGuests: 7 }) });
    expect([updated.numberOfVehicles, updated.numberOfPets]).toEqual([2, 0]);
    const unset = { numberOfVehicles: null, numberOfPets: 3 };
    const last = await operator.forms.setParty({ id, ...unset });
    expect(last).toEqual({ ...updated, ...unset, updatedAt: last.updatedAt });
    expect(Date.parse(last.updatedAt)).toBeGreaterThan(Date.parse(updated.updatedAt));
    const trail = (await readTrail(id)).filter(({ action }) => action === "form.party_set");
    expect(trail.map(({ actor, details }) => [actor, details.fields])).toEqual([
      ["operator", ["numberOfVehicles", "numberOfPets"]],
      ["user", ["numberOfPets"]],
      ["user", ["numberOfVehicles"]],
    ]);
  });

  test.each([
    [{ numberOfVehicles: -1 }, ["numberOfVehicles"]],
    [{ numberOfVehicles: 1.5, numberOfPets: 2 ** 31 }, ["numberOfVehicles", "numberOfPets"]],
    [{ numberOfPets: "1" }, ["numberOfPets"]],
    [{}, ["numberOfVehicles"]],
    [{ numberOfPets: 1, status: "SENT" }, ["status"]],
  ])("vehicles and pets %j are rejected", async (party, fields) => {
    const { id } = await owner.addForm();
    const call = forms.setParty({ id, ...(party as { numberOfPets: number }) });
    expect(await catchRejectedFields(call)).toEqual(fields);
  });

  test("maxVehicles and allowPets of the listing are enforced, also for the operator", async () => {
    const strict = await owner.addListing({ maxVehicles: 1, allowPets: false });
    const { id } = await owner.addForm({ listingId: strict.id });
    for (const caller of [asUser(owner.userId), operator]) {
      const both = caller.forms.setParty({ id, numberOfVehicles: 2, numberOfPets: 1 });
      expect((await catchServiceError(both)).errors).toEqual([
        { field: "numberOfVehicles", issue: "must be at most 1 on this listing" },
        { field: "numberOfPets", issue: "must be 0: the listing does not allow pets" },
      ]);
      await caller.forms.setParty({ id, numberOfVehicles: 1, numberOfPets: 0 });
    }
  });

  test("a form cannot be moved to a listing that does not allow its vehicles or pets", async () => {
    const strict = await owner.addListing({ maxVehicles: 1, allowPets: false });
    const { id } = await owner.addForm();
    await forms.setParty({ id, numberOfVehicles: 2, numberOfPets: 1 });
    const { errors } = await catchServiceError(forms.update({ id, ...fixedStay(strict.id) }));
    const issue =
      "the form's numberOfVehicles must be at most 1 on this listing; the form's numberOfPets must be 0: the listing does not allow pets";
    expect(errors).toEqual([{ field: "listingId", issue }]);
    await forms.setParty({ id, numberOfVehicles: 1, numberOfPets: 0 });
    expect((await forms.update({ id, ...fixedStay(strict.id) })).listingId).toBe(strict.id);
  });

  test("stricter rules of a listing do not change its forms, which can still be updated", async () => {
    const listing = await owner.addListing({ maxVehicles: 5 });
    const { id } = await owner.addForm({ listingId: listing.id });
    await forms.setParty({ id, numberOfVehicles: 5 });
    await operator.listings.update({ id: listing.id, maxVehicles: 1 });
    await forms.setStatus({ id, status: "COMPLETED" });
    await forms.setParty({ id, numberOfPets: 1 });
    expect((await forms.update({ id, ...fixedStay(listing.id) })).numberOfVehicles).toBe(5);
    expect(await catchRejectedFields(forms.setParty({ id, numberOfVehicles: 2 }))).toEqual(["numberOfVehicles"]);
  });
});
