import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import {
  asOperator,
  asUser,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  makeForm,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";

let services: Services;
let userId: string;
let listingId: string;
/** The procedures of forms, called as the owner of the listing. */
let forms: Caller["forms"];

beforeAll(async () => {
  services = await openTestServices();
  ({ userId, listingId, forms } = await makeListingOwner(services));
});

const newForm = (listing = listingId) => makeForm(services, userId, listing);
const readTrail = async (subjectId: string) =>
  (await asOperator(services).audit.trail({ subjectId })).map(({ actor, action, details }) => ({
    actor,
    action,
    details,
  }));

const STATUSES = ["SENT", "COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT"];
const NEXT_STATUSES: Record<string, string[]> = {
  SENT: ["COMPLETED"],
  COMPLETED: ["ACCEPTED", "REJECTED"],
  ACCEPTED: ["VALIDATED", "INVALIDATED"],
  REJECTED: ["VALIDATED", "INVALIDATED"],
  VALIDATED: ["CHECKED_OUT"],
  INVALIDATED: ["CHECKED_OUT"],
  CHECKED_OUT: [],
  ON_HOLD: [],
};

describe("the status of a form", () => {
  test("a user can set the next status, along every path from SENT to CHECKED_OUT, and each change is audited", async () => {
    for (const decision of ["ACCEPTED", "REJECTED"]) {
      for (const verdict of ["VALIDATED", "INVALIDATED"]) {
        const { id } = await newForm();
        const path = ["COMPLETED", decision, verdict, "CHECKED_OUT"];
        for (const status of path) expect((await forms.setStatus({ id, status })).status).toBe(status);
        const steps = ["SENT", ...path];
        expect((await readTrail(id)).slice(0, path.length)).toEqual(
          path
            .map((to, index) => ({
              actor: "user",
              action: "form.status_set",
              details: { from: steps[index], to, correction: false },
            }))
            .reverse(),
        );
      }
    }
  });

  test("a user cannot set any other status, and a rejected change is neither stored nor audited", async () => {
    const operator = asOperator(services);
    const { id } = await newForm();
    for (const from of [...STATUSES, "ON_HOLD"]) {
      await operator.forms.setStatus({ id, status: from, force: true });
      const before = await readTrail(id);
      const shown = from === "ON_HOLD" ? "UNKNOWN" : from;
      for (const to of [...STATUSES, "ON_HOLD", "UNKNOWN"].filter((status) => status !== from)) {
        if (NEXT_STATUSES[from]?.includes(to)) continue;
        const { errors } = await catchServiceError(forms.setStatus({ id, status: to }));
        expect(errors?.map(({ field }) => field)).toEqual(["status"]);
        expect(errors?.[0]?.issue).toContain(`a form that is ${shown} can`);
      }
      expect((await forms.get({ id })).status).toBe(shown);
      expect(await readTrail(id)).toEqual(before);
    }
  });

  test("the operator can set any known status, others only with force, and one out of order is audited as a correction", async () => {
    const operator = asOperator(services);
    const { id } = await newForm();
    for (const status of ["ACEPTED", "ON_HOLD", "UNKNOWN", "_"]) {
      const { errors } = await catchServiceError(operator.forms.setStatus({ id, status }));
      const issue = `must be one of ${STATUSES.join(", ")}; to set another status, use force`;
      expect(errors).toEqual([{ field: "status", issue }]);
    }
    const sets = [
      ["COMPLETED", false],
      ["CHECKED_OUT", true],
      ["SENT", true],
      ["ON_HOLD", true],
      ["COMPLETED", true],
      ["ACCEPTED", false],
    ] as const;
    for (const [status] of sets) {
      const isUnknown = !STATUSES.includes(status);
      const set = await operator.forms.setStatus({ id, status, ...(isUnknown && { force: true }) });
      expect(set.status).toBe(isUnknown ? "UNKNOWN" : status);
    }
    const trail = (await readTrail(id)).reverse().slice(1);
    expect(trail.map(({ actor, details }) => [actor, details.to, details.correction])).toEqual(
      sets.map(([status, correction]) => ["operator", status, correction]),
    );
    for (const malformed of ["not-a-status", "sent", "", "X".repeat(33), "A-B", "SENT "]) {
      const set = operator.forms.setStatus({ id, status: malformed, force: true });
      expect(await catchRejectedFields(set)).toEqual(["status"]);
    }
    for (const unknownId of [randomUUID(), "x"]) {
      const set = operator.forms.setStatus({ id: unknownId, status: "SENT" });
      expect(await catchErrorCode(set)).toBe("RESOURCE_NOT_FOUND");
    }
    // Only the operator can use force.
    const forced = forms.setStatus({ id, status: "SENT", force: true });
    expect(await catchRejectedFields(forced)).toEqual(["status"]);
  });

  test("setting the current status again succeeds and is not audited, so a retry is harmless", async () => {
    const { id } = await newForm();
    await forms.setStatus({ id, status: "COMPLETED" });
    const before = await readTrail(id);
    expect((await forms.setStatus({ id, status: "COMPLETED" })).status).toBe("COMPLETED");
    expect(await readTrail(id)).toEqual(before);
  });

  test("of two different statuses set at the same time, exactly one wins", async () => {
    for (let round = 0; round < 10; round++) {
      const { id } = await newForm();
      await forms.setStatus({ id, status: "COMPLETED" });
      const outcomes = await Promise.allSettled(
        ["ACCEPTED", "REJECTED"].map((status) => forms.setStatus({ id, status })),
      );
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(await readTrail(id)).toHaveLength(3);
    }
  });

  test("a reader and a user without a role get RESOURCE_NOT_FOUND for status, vehicles and pets, and an update keeps the status", async () => {
    const { id } = await newForm();
    const other = (await makeUser(services)).id;
    for (const role of ["NONE", "READER"] as const) {
      if (role !== "NONE") await setRole(services, listingId, other, role);
      const others = asUser(services, other).forms;
      const status = others.setStatus({ id, status: "COMPLETED" });
      expect(await catchErrorCode(status)).toBe("RESOURCE_NOT_FOUND");
      expect(await catchErrorCode(others.setParty({ id, numberOfPets: 1 }))).toBe("RESOURCE_NOT_FOUND");
    }
    await forms.setStatus({ id, status: "COMPLETED" });
    expect((await forms.update({ id, ...fixedStay(listingId) })).status).toBe("COMPLETED");
  });
});

describe("numberOfVehicles and numberOfPets", () => {
  test("both are null until set, kept if absent and unset by null, and each change is audited", async () => {
    const form = await newForm();
    expect([form.numberOfVehicles, form.numberOfPets]).toEqual([null, null]);
    const { id } = form;
    expect(await forms.setParty({ id, numberOfVehicles: 2 })).toEqual({ ...form, numberOfVehicles: 2 });
    expect(await forms.setParty({ id, numberOfPets: 0 })).toEqual({
      ...form,
      numberOfVehicles: 2,
      numberOfPets: 0,
    });
    const updated = await forms.update({ id, ...fixedStay(listingId) });
    expect([updated.numberOfVehicles, updated.numberOfPets]).toEqual([2, 0]);
    expect(
      await asOperator(services).forms.setParty({ id, numberOfVehicles: null, numberOfPets: 3 }),
    ).toEqual({ ...updated, numberOfVehicles: null, numberOfPets: 3 });
    expect(
      (await readTrail(id)).map(({ actor, action, details }) => [actor, action, details.fields]),
    ).toEqual([
      ["operator", "form.party_set", ["numberOfVehicles", "numberOfPets"]],
      ["user", "form.updated", undefined],
      ["user", "form.party_set", ["numberOfPets"]],
      ["user", "form.party_set", ["numberOfVehicles"]],
      ["user", "form.created", undefined],
    ]);
  });

  test("maxVehicles and allowPets of the listing are enforced, also for the operator", async () => {
    const strictListing = (await makeListing(services, userId, { maxVehicles: 1, allowPets: false })).id;
    const { id } = await newForm(strictListing);
    for (const caller of [asUser(services, userId), asOperator(services)]) {
      const both = caller.forms.setParty({ id, numberOfVehicles: 2, numberOfPets: 1 });
      expect((await catchServiceError(both)).errors).toEqual([
        { field: "numberOfVehicles", issue: "must be at most 1 on this listing" },
        { field: "numberOfPets", issue: "must be 0: the listing does not allow pets" },
      ]);
      const most = await caller.forms.setParty({ id, numberOfVehicles: 1, numberOfPets: 0 });
      expect([most.numberOfVehicles, most.numberOfPets]).toEqual([1, 0]);
    }
  });

  test.each([
    [{ numberOfVehicles: -1 }, ["numberOfVehicles"]],
    [{ numberOfVehicles: 1.5, numberOfPets: 2 ** 31 }, ["numberOfVehicles", "numberOfPets"]],
    [{ numberOfPets: "1" }, ["numberOfPets"]],
    [{}, ["numberOfVehicles"]],
    [{ numberOfPets: 1, status: "SENT" }, ["status"]],
  ])("vehicles and pets %j are rejected", async (party, fields) => {
    const { id } = await newForm();
    const call = forms.setParty({ id, ...(party as { numberOfPets: number }) });
    expect(await catchRejectedFields(call)).toEqual(fields);
  });

  test("a form cannot be moved to a listing that does not allow its vehicles or pets", async () => {
    const strictListing = (await makeListing(services, userId, { maxVehicles: 1, allowPets: false })).id;
    const { id } = await newForm();
    await forms.setParty({ id, numberOfVehicles: 2, numberOfPets: 1 });
    const { errors } = await catchServiceError(forms.update({ id, ...fixedStay(strictListing) }));
    expect(errors).toEqual([
      {
        field: "listingId",
        issue:
          "the form's numberOfVehicles must be at most 1 on this listing; the form's numberOfPets must be 0: the listing does not allow pets",
      },
    ]);
    await forms.setParty({ id, numberOfVehicles: 1, numberOfPets: 0 });
    expect((await forms.update({ id, ...fixedStay(strictListing) })).listingId).toBe(strictListing);
  });

  test("stricter rules of a listing do not change its forms, which can still be updated", async () => {
    const operator = asOperator(services);
    const { id: listing } = await makeListing(services, userId, { maxVehicles: 5 });
    const { id } = await newForm(listing);
    await forms.setParty({ id, numberOfVehicles: 5 });
    await operator.listings.update({ id: listing, maxVehicles: 1 });
    expect((await forms.setStatus({ id, status: "COMPLETED" })).numberOfVehicles).toBe(5);
    expect((await forms.update({ id, ...fixedStay(listing) })).numberOfVehicles).toBe(5);
    expect((await forms.setParty({ id, numberOfPets: 1 })).numberOfVehicles).toBe(5);
    expect(await catchRejectedFields(forms.setParty({ id, numberOfVehicles: 2 }))).toEqual([
      "numberOfVehicles",
    ]);
  });
});
