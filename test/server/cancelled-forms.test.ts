import { describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { openTestCore } from "../support/core.js";
import { catchServiceError } from "../support/factories.js";
import { setState } from "../support/outbox-queue.js";
import { uniqueStay } from "../support/stays.js";

const { owner, operator, sql, makeOwner, asUser } = await openTestCore();
const { listingId, forms } = owner;

const ADDRESS = "guest@example.com";

/** Creates a form with an address, and cancels it. */
async function cancelOne(fields: object = {}) {
  const stay = uniqueStay(listingId, { guestEmail: ADDRESS, ...fields });
  const { form } = await owner.create(stay);
  return { stay, form, cancelled: await forms.update({ id: form.id, ...stay, cancelled: true }) };
}

const rejectionOf = async (call: Promise<unknown>) => {
  const { serviceCode, errors } = await catchServiceError(call);
  return [serviceCode, errors?.map(({ field }) => field)];
};
const CANCELLED_ERROR = ["VALIDATION_ERROR", ["cancelled"]];

const trailOf = async (subjectId: string) =>
  (await operator.audit.trail({ subjectId, limit: 100 })).map(({ action, details }) => ({ action, details }));

describe("an update with cancelled", () => {
  test("sets the status, removes the address, ends the waiting invitation, and applies nothing else", async () => {
    const { form, cancelled } = await cancelOne();
    expect(cancelled).toEqual({ ...form, status: "CANCELLED", updatedAt: expect.any(String) });
    expect(Date.parse(cancelled.updatedAt)).toBeGreaterThan(Date.parse(form.createdAt));
    expect(await forms.get({ id: form.id })).toEqual(cancelled);
    expect((await operator.forms.getAny({ id: form.id })).hasGuestEmail).toBe(false);
    expect(await operator.emails.list({ formId: form.id })).toMatchObject({ items: [{ state: "expired" }] });
    const [first] = await trailOf(form.id);
    expect(first).toEqual({ action: "form.cancelled", details: { from: "SENT", correction: false } });
  });

  test("does not apply the other properties", async () => {
    const { id: otherId } = await owner.addListing();
    const stay = uniqueStay(listingId, { externalId: "a" });
    const form = await forms.create(stay);
    const other = { ...uniqueStay(otherId), numberOfGuests: 9, guestEmail: "b@example.com", externalId: "b" };
    const cancelled = await forms.update({ id: form.id, ...other, cancelled: true });
    expect(cancelled).toEqual({ ...form, status: "CANCELLED", updatedAt: cancelled.updatedAt });
    expect(await operator.emails.list({ formId: form.id })).toMatchObject({ items: [] });
  });

  test("needs the other properties, valid and in scope", async () => {
    const { id } = await owner.addForm();
    const stay = uniqueStay(listingId);
    const wrong = forms.update({ id, ...stay, numberOfGuests: 0, cancelled: true });
    expect(await rejectionOf(wrong)).toEqual(["VALIDATION_ERROR", ["numberOfGuests"]]);
    const stranger = await makeOwner();
    const elsewhere = forms.update({ id, ...stay, listingId: stranger.listingId, cancelled: true });
    expect(await rejectionOf(elsewhere)).toEqual(["RESOURCE_NOT_FOUND", undefined]);
    const foreign = stranger.forms.update({ id, ...stay, listingId: stranger.listingId, cancelled: true });
    expect(await rejectionOf(foreign)).toEqual(["RESOURCE_NOT_FOUND", undefined]);
    expect((await forms.get({ id })).status).toBe("SENT");
  });

  test("is refused by no rule of the listing, nor of another", async () => {
    const { id } = await forms.create(uniqueStay(listingId, { numberOfGuests: 5 }));
    const { id: strict } = await owner.addListing({ active: false, maxPeopleInListing: 1 });
    const stay = uniqueStay(strict, { numberOfGuests: 5 });
    expect((await forms.update({ id, ...stay, cancelled: true })).status).toBe("CANCELLED");
  });

  test.each([[false], [null], ["true"], [1], ["yes"], [{}]])("%j is a VALIDATION_ERROR", async (cancelled) => {
    const { id } = await owner.addForm();
    const update = forms.update({ id, ...uniqueStay(listingId), cancelled: cancelled as true });
    expect(await rejectionOf(update)).toEqual(CANCELLED_ERROR);
  });

  test("again gives the same answer, writes nothing and is no event", async () => {
    const { stay, form, cancelled } = await cancelOne();
    const before = await trailOf(form.id);
    expect(await forms.update({ id: form.id, ...stay, numberOfGuests: 7, cancelled: true })).toEqual(cancelled);
    expect(await trailOf(form.id)).toEqual(before);
  });

  test("from CHECKED_OUT is a VALIDATION_ERROR; from any other status it cancels", async () => {
    for (const status of [...FORM_STATUSES.filter((one) => one !== "UNKNOWN" && one !== "CANCELLED"), "ON_HOLD"]) {
      const { id } = await owner.addForm();
      await operator.forms.setStatus({ id, status, force: true });
      const update = forms.update({ id, ...uniqueStay(listingId), cancelled: true });
      if (status === "CHECKED_OUT") expect(await rejectionOf(update)).toEqual(CANCELLED_ERROR);
      else expect((await update).status, status).toBe("CANCELLED");
    }
  });

  test("of two at once writes one entry", async () => {
    const stay = uniqueStay(listingId);
    const { id } = await forms.create(stay);
    const both = await Promise.all([1, 2].map(() => forms.update({ id, ...stay, cancelled: true })));
    expect(both[0]).toEqual(both[1]);
    expect((await trailOf(id)).filter(({ action }) => action === "form.cancelled")).toHaveLength(1);
  });
});

describe("a form becomes CANCELLED in the same way", () => {
  const user = () => asUser(owner.userId);
  test.each<[string, () => Pick<Caller, "forms">]>([
    ["by its host", user],
    ["by the operator", () => operator],
  ])("%s", async (_, caller) => {
    const { form } = await owner.create(uniqueStay(listingId, { guestEmail: ADDRESS }));
    await operator.forms.setStatus({ id: form.id, status: "COMPLETED" });
    await sql(setState("emails", "failed", "form_id = $1"), form.id);
    const set = await caller().forms.setStatus({ id: form.id, status: "CANCELLED", from: "COMPLETED" });
    expect(set).toEqual({ ...form, status: "CANCELLED", updatedAt: set.updatedAt });
    expect((await operator.forms.getAny({ id: form.id })).hasGuestEmail).toBe(false);
    expect(await operator.emails.list({ formId: form.id })).toMatchObject({ items: [{ state: "expired" }] });
    const [first, second] = await trailOf(form.id);
    expect(first).toEqual({ action: "form.cancelled", details: { from: "COMPLETED", correction: false } });
    expect(await caller().forms.setStatus({ id: form.id, status: "CANCELLED", from: "COMPLETED" }), "again").toEqual(
      set,
    );
    expect(second?.action).toBe("form.status_set");
  });

  test("but not from CHECKED_OUT by its host; the operator may correct that", async () => {
    const { id } = await owner.addForm();
    await operator.forms.setStatus({ id, status: "CHECKED_OUT" });
    const byHost = user().forms.setStatus({ id, status: "CANCELLED" });
    expect(await rejectionOf(byHost)).toEqual(["VALIDATION_ERROR", ["status"]]);
    expect((await operator.forms.setStatus({ id, status: "CANCELLED" })).status).toBe("CANCELLED");
  });
});

describe("a cancelled form", () => {
  test("is changed by nothing", async () => {
    const { stay, form, cancelled } = await cancelOne();
    const { id } = form;
    const user = asUser(owner.userId);
    const { id: otherId } = await owner.addListing();
    const calls: Record<string, () => Promise<unknown>> = {
      update: () => forms.update({ id, ...stay }),
      move: () => forms.update({ id, ...stay, listingId: otherId }),
      complete: () => user.forms.setStatus({ id, status: "COMPLETED" }),
      "operator's completion": () => operator.forms.setStatus({ id, status: "COMPLETED" }),
      "completion from SENT": () => user.forms.setStatus({ id, status: "COMPLETED", from: "SENT" }),
      force: () => operator.forms.setStatus({ id, status: "ON_HOLD", force: true }),
      party: () => user.forms.setParty({ id, numberOfPets: 1 }),
      "send again": () => operator.emails.send({ formId: id }),
    };
    for (const [name, call] of Object.entries(calls)) expect(await rejectionOf(call()), name).toEqual(CANCELLED_ERROR);
    const [email] = (await operator.emails.list({ formId: id })).items;
    expect(await rejectionOf(operator.emails.retry({ id: email?.id ?? "" }))).toEqual(["VALIDATION_ERROR", ["id"]]);
    expect(await forms.get({ id })).toEqual(cancelled);
  });

  test("is replayed by creates without a key, as it was created; a new key or external id makes a new form", async () => {
    const { stay, form } = await cancelOne();
    expect(await owner.create(stay)).toEqual({ form, replayed: true });
    expect((await owner.create({ ...stay, externalId: "new" })).replayed).toBe(false);
    const again = await owner.create(stay, `new ${form.id}`);
    expect([again.replayed, again.form.status]).toEqual([false, "SENT"]);
    expect(await owner.create(stay), "the newer one").toEqual({ form: again.form, replayed: true });
  });

  test("is replayed by a late retry with its bound key", async () => {
    const stay = uniqueStay(listingId, { guestEmail: ADDRESS });
    const { form } = await owner.create(stay, "late");
    await forms.update({ id: form.id, ...stay, cancelled: true });
    const replay = { form, replayed: true };
    expect(await owner.create(stay, "late")).toEqual(replay);
    const second = await owner.create(stay, "the next booking");
    expect(second.replayed).toBe(false);
    expect(await owner.create(stay, "late")).toEqual(replay);
    expect((await forms.get({ id: form.id })).status).toBe("CANCELLED");
    expect(await operator.emails.list({ formId: form.id })).toMatchObject({ items: [{ state: "expired" }] });
  });
});
