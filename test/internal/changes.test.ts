import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import {
  asOperator,
  asUser,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  fixedStay,
  makeForm,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../factories.js";

let services: Services;
let userId: string;
let listingId: string;

beforeAll(async () => {
  services = await openTestServices();
  userId = (await makeUser(services)).id;
  listingId = (await makeListing(services, userId)).id;
});

const newForm = (listing = listingId) => makeForm(services, userId, listing);
const trailOf = async (subjectId: string) =>
  (await asOperator(services).audit.trail({ subjectId })).map(({ actor, action, details }) => ({
    actor,
    action,
    details,
  }));

const STATUSES = ["SENT", "COMPLETED", "ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT"];
const NEXT: Record<string, string[]> = {
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
  test("a user takes it one stage on, along every way from SENT to CHECKED_OUT", async () => {
    const user = asUser(services, userId);
    for (const answer of ["ACCEPTED", "REJECTED"]) {
      for (const verdict of ["VALIDATED", "INVALIDATED"]) {
        const { id } = await newForm();
        const way = ["COMPLETED", answer, verdict, "CHECKED_OUT"];
        for (const status of way) expect((await user.forms.setStatus({ id, status })).status).toBe(status);
        const steps = ["SENT", ...way];
        expect((await trailOf(id)).slice(0, way.length)).toEqual(
          way
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

  test("a user takes it no other step: what is refused changes and audits nothing", async () => {
    const [user, operator] = [asUser(services, userId), asOperator(services)];
    const { id } = await newForm();
    for (const from of [...STATUSES, "ON_HOLD"]) {
      await operator.forms.setStatus({ id, status: from, force: true });
      const before = await trailOf(id);
      const shown = from === "ON_HOLD" ? "UNKNOWN" : from;
      for (const to of [...STATUSES, "ON_HOLD", "UNKNOWN"].filter((status) => status !== from)) {
        if (NEXT[from]?.includes(to)) continue;
        const { errors } = await catchServiceError(user.forms.setStatus({ id, status: to }));
        expect(errors?.map(({ field }) => field)).toEqual(["status"]);
        expect(errors?.[0]?.issue).toContain(`a form that is ${shown} can`);
      }
      expect((await user.forms.get({ id })).status).toBe(shown);
      expect(await trailOf(id)).toEqual(before);
    }
  });

  test("the operator sets any; out of order it is audited as a correction", async () => {
    const operator = asOperator(services);
    const { id } = await newForm();
    const sets = [
      ["COMPLETED", false],
      ["CHECKED_OUT", true],
      ["SENT", true],
      ["ON_HOLD", true],
      ["COMPLETED", true],
      ["ACCEPTED", false],
    ] as const;
    for (const [status] of sets) await operator.forms.setStatus({ id, status, force: true });
    const trail = (await trailOf(id)).reverse().slice(1);
    expect(trail.map(({ actor, details }) => [actor, details.to, details.correction])).toEqual(
      sets.map(([status, correction]) => ["operator", status, correction]),
    );
    expect(await catchRejectedFields(operator.forms.setStatus({ id, status: "not-a-status" }))).toEqual([
      "status",
    ]);
    expect(await catchErrorCode(operator.forms.setStatus({ id: randomUUID(), status: "SENT" }))).toBe(
      "RESOURCE_NOT_FOUND",
    );
  });

  test("the operator sets an unknown status only with force; otherwise it is refused", async () => {
    const operator = asOperator(services);
    const { id } = await newForm();
    const before = await trailOf(id);
    const issueOf = async (status: string) =>
      (await catchServiceError(operator.forms.setStatus({ id, status }))).errors?.map(
        ({ field, issue }) => `${field} ${issue}`,
      );
    for (const status of ["ACEPTED", "ON_HOLD", "UNKNOWN", "_"]) {
      expect(await issueOf(status)).toEqual([
        `status must be one of ${STATUSES.join(", ")}; to set another status, use force`,
      ]);
    }
    expect(await trailOf(id)).toEqual(before);
    expect((await operator.forms.setStatus({ id, status: "ON_HOLD", force: true })).status).toBe("UNKNOWN");
    // Force is the operator's: it takes no user out of the order.
    const user = asUser(services, userId);
    expect(await catchRejectedFields(user.forms.setStatus({ id, status: "SENT", force: true }))).toEqual([
      "status",
    ]);
  });

  test("the status it has already is set without a trace, so that a retry is harmless", async () => {
    const { id } = await newForm();
    const user = asUser(services, userId);
    await user.forms.setStatus({ id, status: "COMPLETED" });
    const before = await trailOf(id);
    expect((await user.forms.setStatus({ id, status: "COMPLETED" })).status).toBe("COMPLETED");
    expect(await trailOf(id)).toEqual(before);
  });

  test("of two at once who answer a form differently, one wins", async () => {
    const user = asUser(services, userId);
    for (let round = 0; round < 10; round++) {
      const { id } = await newForm();
      await user.forms.setStatus({ id, status: "COMPLETED" });
      const outcomes = await Promise.allSettled(
        ["ACCEPTED", "REJECTED"].map((status) => user.forms.setStatus({ id, status })),
      );
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(await trailOf(id)).toHaveLength(3);
    }
  });

  test("a reader and a stranger find no form, and an update leaves the status alone", async () => {
    const form = await newForm();
    const other = (await makeUser(services)).id;
    for (const role of ["NONE", "READER"] as const) {
      if (role !== "NONE") await setRole(services, listingId, other, role);
      const call = asUser(services, other).forms.setStatus({ id: form.id, status: "COMPLETED" });
      expect(await catchErrorCode(call)).toBe("RESOURCE_NOT_FOUND");
    }
    await asUser(services, userId).forms.setStatus({ id: form.id, status: "COMPLETED" });
    const updated = await asUser(services, userId).forms.update({ id: form.id, ...fixedStay(listingId) });
    expect(updated.status).toBe("COMPLETED");
  });
});

describe("vehicles and pets of a form", () => {
  test("are null until set, stay when absent, and are unset by null; each change is audited", async () => {
    const user = asUser(services, userId);
    const form = await newForm();
    expect([form.numberOfVehicles, form.numberOfPets]).toEqual([null, null]);
    const { id } = form;
    expect(await user.forms.setParty({ id, numberOfVehicles: 2 })).toEqual({ ...form, numberOfVehicles: 2 });
    expect(await user.forms.setParty({ id, numberOfPets: 0 })).toEqual({
      ...form,
      numberOfVehicles: 2,
      numberOfPets: 0,
    });
    const updated = await user.forms.update({ id, ...fixedStay(listingId) });
    expect([updated.numberOfVehicles, updated.numberOfPets]).toEqual([2, 0]);
    expect(
      await asOperator(services).forms.setParty({ id, numberOfVehicles: null, numberOfPets: 3 }),
    ).toEqual({ ...updated, numberOfVehicles: null, numberOfPets: 3 });
    expect((await trailOf(id)).map(({ actor, action, details }) => [actor, action, details.fields])).toEqual([
      ["operator", "form.party_set", ["numberOfVehicles", "numberOfPets"]],
      ["user", "form.updated", undefined],
      ["user", "form.party_set", ["numberOfPets"]],
      ["user", "form.party_set", ["numberOfVehicles"]],
      ["user", "form.created", undefined],
    ]);
  });

  test("keep to the listing's maxVehicles and allowPets, for the operator too", async () => {
    const tight = (await makeListing(services, userId, { maxVehicles: 1, allowPets: false })).id;
    const { id } = await newForm(tight);
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
  ])("%j is refused", async (party, fields) => {
    const { id } = await newForm();
    const call = asUser(services, userId).forms.setParty({ id, ...(party as { numberOfPets: number }) });
    expect(await catchRejectedFields(call)).toEqual(fields);
  });

  test("a form is not moved to a listing that does not take them", async () => {
    const user = asUser(services, userId);
    const tight = (await makeListing(services, userId, { maxVehicles: 1, allowPets: false })).id;
    const { id } = await newForm();
    await user.forms.setParty({ id, numberOfVehicles: 2, numberOfPets: 1 });
    const { errors } = await catchServiceError(user.forms.update({ id, ...fixedStay(tight) }));
    expect(errors).toEqual([
      {
        field: "listingId",
        issue:
          "the form's numberOfVehicles must be at most 1 on this listing; the form's numberOfPets must be 0: the listing does not allow pets",
      },
    ]);
    await user.forms.setParty({ id, numberOfVehicles: 1, numberOfPets: 0 });
    expect((await user.forms.update({ id, ...fixedStay(tight) })).listingId).toBe(tight);
  });

  test("a stricter listing leaves forms as they are, and they can still go on", async () => {
    const [user, operator] = [asUser(services, userId), asOperator(services)];
    const { id: listing } = await makeListing(services, userId, { maxVehicles: 5 });
    const { id } = await newForm(listing);
    await user.forms.setParty({ id, numberOfVehicles: 5 });
    await operator.listings.update({ id: listing, maxVehicles: 1 });
    expect((await user.forms.setStatus({ id, status: "COMPLETED" })).numberOfVehicles).toBe(5);
    expect((await user.forms.update({ id, ...fixedStay(listing) })).numberOfVehicles).toBe(5);
    expect((await user.forms.setParty({ id, numberOfPets: 1 })).numberOfVehicles).toBe(5);
    expect(await catchRejectedFields(user.forms.setParty({ id, numberOfVehicles: 2 }))).toEqual([
      "numberOfVehicles",
    ]);
  });

  test("are no part of a replay: the original answer is given as it was", async () => {
    const user = asUser(services, userId);
    const body = fixedStay(listingId, { numberOfGuests: 77 });
    const form = await user.forms.create(body);
    await user.forms.setParty({ id: form.id, numberOfVehicles: 1 });
    expect(await user.forms.create(body)).toEqual(form);
  });
});

describe("a listing", () => {
  test("is changed in what is given, audited by the names of the fields", async () => {
    const operator = asOperator(services);
    const listing = await makeListing(services, userId, {
      district: "Mitte",
      maxVehicles: 1,
      allowPets: true,
    });
    const { id } = listing;
    expect(await operator.listings.update({ id, district: null, allowPets: null, maxVehicles: 3 })).toEqual({
      ...listing,
      district: null,
      allowPets: null,
      maxVehicles: 3,
    });
    expect(await operator.listings.update({ id })).toMatchObject({ maxVehicles: 3 });
    expect((await operator.listings.deactivate({ id: id.toUpperCase() })).active).toBe(false);
    expect(
      await catchRejectedFields(operator.listings.update({ id, title: "", timezone: "Mars/Base" })),
    ).toEqual(["title", "timezone"]);
    expect(await trailOf(id)).toEqual([
      { actor: "operator", action: "listing.updated", details: { fields: ["active"], active: false } },
      {
        actor: "operator",
        action: "listing.updated",
        details: { fields: ["district", "maxVehicles", "allowPets"] },
      },
      { actor: "operator", action: "listing.created", details: { ownerId: userId } },
    ]);
  });
});
