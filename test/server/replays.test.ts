import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { FormBody } from "../../server/forms/schema.js";
import {
  asOperator,
  asUser,
  catchErrorCode,
  catchServiceError,
  openTestServices,
  setRole,
  TEST_SECRET,
  withSecrets,
} from "../support/factories.js";
import { type ListingOwner, makeListingOwner, ONE_FORM } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";

let services: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
});

const updateForm = ({ forms }: ListingOwner, id: string, body: Partial<FormBody> & { listingId: string }) =>
  forms.update({ id, ...fixedStay(body.listingId), ...body });

describe("after an update of the form", () => {
  test("a retry with no or a bound Idempotency-Key replays the original response", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body, "bound");
    await updateForm(owner, first.form.id, { ...owner.body, numberOfGuests: 9 });
    await asOperator(services).forms.setStatus({ id: first.form.id, status: "COMPLETED" });
    await owner.forms.setParty({ id: first.form.id, numberOfVehicles: 1 });
    for (const key of [undefined, "bound"]) {
      expect(await owner.create(owner.body, key)).toEqual({ form: first.form, replayed: true });
    }
    const { status } = await owner.forms.get({ id: first.form.id });
    expect(status, "replays do not change it").toBe("COMPLETED");
  });

  test("a new Idempotency-Key creates a second form, which retries without a key then replay", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body, "first");
    await updateForm(owner, first.form.id, { ...owner.body, numberOfGuests: 9 });
    const second = await owner.create(owner.body, "second");
    expect(second.replayed).toBe(false);
    expect(second.form.id).not.toBe(first.form.id);
    const results = { first, second };
    for (const [key, of] of [
      [undefined, "second"],
      ["second", "second"],
      ["first", "first"],
      ["third", "second"],
      ["third", "second"],
      [undefined, "second"],
    ] as const) {
      expect(await owner.create(owner.body, key)).toEqual({ form: results[of].form, replayed: true });
    }
    const other = { ...owner.body, numberOfGuests: 4 };
    for (const key of ["first", "second", "third"]) {
      expect(await catchErrorCode(owner.create(other, key))).toBe("IDEMPOTENCY_KEY_REUSED");
    }
    expect(await owner.countRows()).toEqual({ forms: 2, creations: 2, notifications: 2, keys: 3, audit: 3 });
  });

  test("after each further update a new Idempotency-Key creates another form, and old keys replay their own", async () => {
    const owner = await makeListingOwner(services);
    const ids = [];
    for (const key of ["a", "b", "c"]) {
      const { form, replayed } = await owner.create(owner.body, key);
      expect(replayed).toBe(false);
      ids.push(form.id);
      await updateForm(owner, form.id, { ...owner.body, numberOfGuests: 9 });
    }
    expect(new Set(ids).size).toBe(3);
    for (const [index, key] of ["a", "b", "c"].entries()) {
      expect((await owner.create(owner.body, key)).form.id).toBe(ids[index]);
    }
    expect((await owner.create(owner.body)).form.id).toBe(ids[2]);
  });

  test("a form that is unchanged, was changed back to the body, or whose update omitted the address is replayed for a new key until it has ended", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body);
    const update = (fields: Partial<FormBody>) =>
      updateForm(owner, first.form.id, { ...owner.body, ...fields });
    const expectReplay = async (newKey: string) =>
      expect(await owner.create(owner.body, newKey)).toEqual({ form: first.form, replayed: true });
    await update({});
    await expectReplay("unchanged");
    await update({ numberOfGuests: 9 });
    await update({});
    await expectReplay("changed back");
    await update({ guestEmail: undefined });
    await expectReplay("without an address");
    for (const status of ["COMPLETED", "ACCEPTED", "VALIDATED", "ARCHIVED", "SENT"]) {
      await asOperator(services).forms.setStatus({ id: first.form.id, status, force: true });
      await expectReplay(status);
    }
    await update({ guestEmail: "other@example.com" });
    expect((await owner.create(owner.body, "another address")).replayed).toBe(false);
  });

  test("a create equal to the updated form creates a new form", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body);
    const changed = { ...owner.body, numberOfGuests: 9 };
    await updateForm(owner, first.form.id, changed);
    const second = await owner.create(changed);
    expect(second.replayed).toBe(false);
    expect(await owner.create(changed, "k")).toEqual({ form: second.form, replayed: true });
    expect(await owner.create(owner.body)).toEqual({ form: first.form, replayed: true });
  });

  test("an Idempotency-Key on an update is ignored", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body, "k");
    const keyed = asUser(services, owner.userId, { idempotencyKey: "k" });
    const updated = await keyed.forms.update({
      id: first.form.id,
      ...fixedStay(owner.listingId, { numberOfGuests: 9 }),
    });
    expect(updated.numberOfGuests).toBe(9);
    const fresh = asUser(services, owner.userId, { idempotencyKey: "fresh" });
    await fresh.forms.update({ id: first.form.id, ...fixedStay(owner.listingId) });
    expect((await owner.create({ ...owner.body, numberOfGuests: 5 }, "fresh")).replayed).toBe(false);
  });
});

describe("a rebooked stay", () => {
  test.each(["REJECTED", "INVALIDATED", "CHECKED_OUT"])(
    "once the form is %s, a new Idempotency-Key creates a new form with its own email, which equal requests then replay",
    async (status) => {
      const owner = await makeListingOwner(services);
      const first = await owner.create(owner.body, "first");
      await asOperator(services).forms.setStatus({ id: first.form.id, status });
      expect(await owner.create(owner.body), "without a key").toEqual({ form: first.form, replayed: true });
      const second = await owner.create(owner.body, "second");
      expect(second).toMatchObject({ replayed: false, form: { status: "SENT" } });
      expect(second.form.id).not.toBe(first.form.id);
      expect(second.form.publicId).not.toBe(first.form.publicId);
      const results = { first, second };
      for (const [key, of] of [
        [undefined, "second"],
        ["second", "second"],
        ["first", "first"],
        ["third", "second"],
        ["third", "second"],
      ] as const) {
        expect(await owner.create(owner.body, key)).toEqual({ form: results[of].form, replayed: true });
      }
      // Two creates and the status change are audited.
      expect(await owner.countRows()).toEqual({
        forms: 2,
        creations: 2,
        notifications: 2,
        keys: 3,
        audit: 3,
      });
    },
  );

  test("an Idempotency-Key that replayed the form before it ended still replays it", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body);
    await owner.create(owner.body, "bound");
    await asOperator(services).forms.setStatus({ id: first.form.id, status: "REJECTED" });
    expect(await owner.create(owner.body, "bound")).toEqual({ form: first.form, replayed: true });
  });

  test("each ended form can be followed by another, and the listing's rules apply to it", async () => {
    const owner = await makeListingOwner(services);
    const ids = [];
    for (const key of ["a", "b", "c"]) {
      const { form, replayed } = await owner.create(owner.body, key);
      expect(replayed).toBe(false);
      ids.push(form.id);
      await asOperator(services).forms.setStatus({ id: form.id, status: "REJECTED" });
    }
    for (const [index, key] of ["a", "b", "c"].entries()) {
      expect((await owner.create(owner.body, key)).form.id).toBe(ids[index]);
    }
    await services.db.pool.query("UPDATE listings SET active = false WHERE id = $1", [owner.listingId]);
    expect(await catchErrorCode(owner.create(owner.body, "d"))).toBe("VALIDATION_ERROR");
    expect((await owner.create(owner.body)).form.id).toBe(ids[2]);
  });
});

describe("a replay checks the scope", () => {
  test("without membership it is RESOURCE_NOT_FOUND, and with a new membership it is replayed", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body, "k");
    for (const role of ["READER", "NONE"] as const) {
      await setRole(services, owner.listingId, owner.userId, role);
      for (const key of [undefined, "k", "new"]) {
        expect(await catchErrorCode(owner.create(owner.body, key))).toBe("RESOURCE_NOT_FOUND");
      }
    }
    expect(await catchErrorCode(owner.create({ ...owner.body, numberOfGuests: 3 }, "k"))).toBe(
      "RESOURCE_NOT_FOUND",
    );
    await setRole(services, owner.listingId, owner.userId, "WRITER");
    expect(await owner.create(owner.body, "k")).toEqual({ form: first.form, replayed: true });
    expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 1 });
  });

  test("it is RESOURCE_NOT_FOUND while the form is on a listing out of scope", async () => {
    const owner = await makeListingOwner(services);
    const other = await makeListingOwner(services);
    await setRole(services, owner.listingId, other.userId, "WRITER");
    const first = await owner.create(owner.body, "k");
    await updateForm(other, first.form.id, { ...owner.body, listingId: other.listingId });
    for (const key of [undefined, "k"]) {
      expect(await catchServiceError(owner.create(owner.body, key))).toMatchObject({
        serviceCode: "RESOURCE_NOT_FOUND",
        message: "You no longer have access to the form that this request created.",
      });
    }
    await updateForm(other, first.form.id, owner.body);
    expect(await owner.create(owner.body, "k")).toEqual({ form: first.form, replayed: true });
  });

  test("a form moved within the scope is replayed, unless the listing of the request is out of scope", async () => {
    const owner = await makeListingOwner(services);
    const second = await owner.addListing();
    const first = await owner.create(owner.body);
    await updateForm(owner, first.form.id, { ...owner.body, listingId: second.id });
    expect(await owner.create(owner.body)).toEqual({ form: first.form, replayed: true });
    await setRole(services, owner.listingId, owner.userId, "NONE");
    expect(await catchErrorCode(owner.create(owner.body))).toBe("RESOURCE_NOT_FOUND");
  });
});

describe("a replay does not check the listing's rules", () => {
  test("it succeeds after the listing was deactivated or its guest limit was lowered", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body, "k");
    await services.db.pool.query(
      "UPDATE listings SET active = false, max_people_in_listing = 1 WHERE id = $1",
      [owner.listingId],
    );
    for (const key of [undefined, "k", "new"]) {
      expect(await owner.create(owner.body, key)).toEqual({ form: first.form, replayed: true });
    }
    expect(await catchErrorCode(owner.create({ ...owner.body, numberOfGuests: 1 }))).toBe("VALIDATION_ERROR");
  });

  test("IDEMPOTENCY_KEY_REUSED comes before the listing's rules", async () => {
    const owner = await makeListingOwner(services, { maxPeopleInListing: 4 });
    await owner.create(owner.body, "k");
    const call = owner.create({ ...owner.body, numberOfGuests: 5 }, "k");
    expect(await catchErrorCode(call)).toBe("IDEMPOTENCY_KEY_REUSED");
  });
});

describe("after a rotation of the secrets", () => {
  test("earlier creates are replayed, and creates made during the rotation after the old secret is removed", async () => {
    const newSecret = "the-next-secret-of-at-least-32-characters";
    const before = await openTestServices();
    const rotated = withSecrets(before, newSecret, TEST_SECRET);
    const owner = await makeListingOwner(before);
    const first = await owner.create(owner.body, "k");
    for (const key of [undefined, "k", "new"]) {
      const again = await owner.create(owner.body, key, rotated);
      expect(again).toEqual({ form: first.form, replayed: true });
    }
    const other = { ...owner.body, numberOfGuests: 5 };
    expect(await catchErrorCode(owner.create(other, "k", rotated))).toBe("IDEMPOTENCY_KEY_REUSED");

    // An update encrypts and fingerprints with the new secret. The stored create has a fingerprint of the old one.
    const caller = asUser(rotated, owner.userId);
    await caller.forms.update({ id: first.form.id, ...other });
    await caller.forms.update({ id: first.form.id, ...owner.body });
    expect(await owner.create(owner.body, "newer", rotated)).toEqual({ form: first.form, replayed: true });

    const second = await owner.create(other, "second", rotated);
    const onlyNew = withSecrets(before, newSecret);
    for (const key of [undefined, "second"]) {
      expect(await owner.create(other, key, onlyNew)).toEqual({ form: second.form, replayed: true });
    }
  });
});

describe("after the form was deleted", () => {
  test("its body and its Idempotency-Keys can be used for new forms", async () => {
    const owner = await makeListingOwner(services);
    const first = await owner.create(owner.body, "k");
    await services.db.pool.query("DELETE FROM forms WHERE id = $1", [first.form.id]);
    const second = await owner.create({ ...owner.body, numberOfGuests: 3 }, "k");
    expect(second.replayed).toBe(false);
    expect((await owner.create(owner.body)).replayed).toBe(false);
  });
});
