import { describe, expect, test } from "vitest";
import { ERRORS } from "../../server/errors.js";
import type { FormBody } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchServiceError, createFormWithOutcome, keyPrincipal } from "../support/factories.js";
import { NO_ROWS, ONE_FORM } from "../support/listing-owner.js";

const { services, operator, sql, setRole, makeKey, makeOwner } = await openTestCore();

describe("an equal body", () => {
  test("with no, the same or another Idempotency-Key is replayed and writes nothing but new keys, whether the first create had one or not", async () => {
    for (const firstKey of [undefined, "one"]) {
      const owner = await makeOwner();
      const first = await owner.create(owner.body, firstKey);
      expect(first.replayed).toBe(false);
      for (const key of [undefined, "one", "one", "two", undefined, "one"]) {
        expect(await owner.create(owner.body, key)).toEqual({ form: first.form, replayed: true });
      }
      expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 2 });
    }
  });

  test("is compared by value: property order, offset, email domain case and UUID case do not matter", async () => {
    const owner = await makeOwner();
    const body = { ...owner.body, guestEmail: "Guest.Name@example.com" };
    const first = await owner.create(body);
    const equalBodies = [
      { ...body, checkInDate: "2055-07-01T15:00:00+02:00", checkOutDate: "2055-07-08T09:00:00.000999-00:00" },
      { ...body, guestEmail: "  Guest.Name@EXAMPLE.Com " },
      { ...body, listingId: body.listingId.toUpperCase() },
      Object.fromEntries(Object.entries(body).reverse()) as typeof body,
    ];
    for (const again of equalBodies) {
      expect(await owner.create(again)).toEqual({ form: first.form, replayed: true });
    }
    const otherBodies = [
      { ...body, guestEmail: "guest.name@example.com" },
      { ...body, guestEmail: "other@example.com" },
      { ...body, guestEmail: null },
      { ...body, checkInDate: "2055-07-01T13:00:00.001Z" },
      { ...body, checkOutDate: "2055-07-08T09:00:01Z" },
      { ...body, numberOfGuests: 3 },
      { ...body, listingId: (await owner.addListing()).id },
    ];
    const ids = new Set([first.form.id]);
    for (const other of otherBodies) {
      const { form, replayed } = await owner.create(other);
      expect(replayed).toBe(false);
      ids.add(form.id);
    }
    expect(ids.size).toBe(8);
  });
});

describe("an Idempotency-Key reused with another body", () => {
  test("is IDEMPOTENCY_KEY_REUSED and writes nothing, whether a create or a replay bound the key, and whether the body was created before", async () => {
    const owner = await makeOwner();
    await owner.create(owner.body, "made");
    await owner.create(owner.body, "repeated");
    const other = { ...owner.body, numberOfGuests: 3 };
    const expectReused = async () => {
      const before = await owner.countRows();
      for (const key of ["made", "repeated"]) {
        expect(await catchErrorCode(owner.create(other, key))).toBe("IDEMPOTENCY_KEY_REUSED");
      }
      expect(await owner.countRows()).toEqual(before);
    };
    await expectReused();
    expect((await owner.create(other, "another")).replayed, "the body was not bound").toBe(false);
    await expectReused();
    expect(await catchErrorCode(owner.create(owner.body, "another"))).toBe("IDEMPOTENCY_KEY_REUSED");
  });

  test("the error names the form that the key belongs to and the update of it, unless the form is out of scope", async () => {
    const owner = await makeOwner();
    const second = await owner.addListing();
    const { form } = await owner.create(owner.body, "k");
    const other = { ...owner.body, listingId: second.id };
    const readError = () => catchServiceError(owner.create(other, "k"));
    const { message, location } = await readError();
    expect(message).toContain(`belongs to form ${form.id}`);
    expect(message).toContain(`PUT /v1/forms/${form.id}`);
    expect(location).toBe(`/v1/forms/${form.id}`);
    for (const role of ["READER", "NONE"] as const) {
      await setRole(owner.listingId, owner.userId, role);
      const { message, location } = await readError();
      expect([message, location]).toEqual([ERRORS.IDEMPOTENCY_KEY_REUSED.message, undefined]);
    }
  });

  test("keys that differ in case or spaces are different keys", async () => {
    const owner = await makeOwner();
    for (const [index, key] of ["k", "K", " k", "k "].entries()) {
      const { replayed } = await owner.create({ ...owner.body, numberOfGuests: index + 1 }, key);
      expect(replayed).toBe(false);
    }
  });
});

test("a failed create binds neither its Idempotency-Key nor its body, whatever the error", async () => {
  const owner = await makeOwner({ maxPeopleInListing: 4 });
  const { body } = owner;
  const inactive = await owner.addListing({ active: false });
  const foreign = await makeOwner();
  const failures = [
    ["VALIDATION_ERROR", { numberOfGuests: 5 }],
    ["VALIDATION_ERROR", { numberOfGuests: 0 }],
    ["VALIDATION_ERROR", { listingId: inactive.id }],
    ["RESOURCE_NOT_FOUND", { listingId: foreign.listingId }],
  ] as const;
  for (const [code, fault] of failures) {
    expect(await catchErrorCode(owner.create({ ...body, ...fault }, "key"))).toBe(code);
  }
  expect(await owner.countRows()).toEqual(NO_ROWS);
  const first = await owner.create(body, "key");
  expect(first.replayed).toBe(false);
  expect(await owner.create(body, "key")).toEqual({ form: first.form, replayed: true });
  expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 1 });
});

describe("Idempotency-Keys and fingerprints belong to a key holder", () => {
  test("key holders on the same listing do not see each other's keys or fingerprints", async () => {
    const owner = await makeOwner();
    const second = await makeOwner();
    await setRole(owner.listingId, second.userId, "WRITER");
    const first = await owner.create(owner.body, "key");
    const theirs = await second.create(owner.body, "key");
    expect(theirs.replayed).toBe(false);
    expect(theirs.form.id).not.toBe(first.form.id);
    expect((await owner.create(owner.body, "key")).form).toEqual(first.form);
    expect((await second.create(owner.body)).form).toEqual(theirs.form);
  });

  test("all keys of a holder, rotated ones included, and the holder as a user replay each other's creates", async () => {
    const owner = await makeOwner();
    const key = await makeKey(owner.userId);
    const createWith = (id: string, body = owner.body, options = {}) =>
      createFormWithOutcome(services, keyPrincipal({ ...key, id }), body, options);
    const keyed = { idempotencyKey: "k" };
    const { form } = await createWith(key.id, owner.body, keyed);
    const rotated = await operator.keys.rotate({ id: key.id });
    const other = await makeKey(owner.userId);
    for (const { id } of [rotated, other]) {
      expect(await createWith(id, owner.body, keyed)).toEqual({ form, replayed: true });
      expect(await createWith(id)).toEqual({ form, replayed: true });
    }
    expect(await owner.create(owner.body)).toEqual({ form, replayed: true });
    const changed = { ...owner.body, numberOfGuests: 9 };
    expect(await catchErrorCode(createWith(other.id, changed, keyed))).toBe("IDEMPOTENCY_KEY_REUSED");
  });
});

describe("after an update of the form", () => {
  test("a retry with no or a bound Idempotency-Key replays the original response", async () => {
    const owner = await makeOwner();
    const first = await owner.create(owner.body, "bound");
    await owner.forms.update({ id: first.form.id, ...owner.body, numberOfGuests: 9 });
    await operator.forms.setStatus({ id: first.form.id, status: "COMPLETED" });
    await owner.forms.setParty({ id: first.form.id, numberOfVehicles: 1 });
    for (const key of [undefined, "bound"]) {
      expect(await owner.create(owner.body, key)).toEqual({ form: first.form, replayed: true });
    }
    const { status } = await owner.forms.get({ id: first.form.id });
    expect(status, "replays do not change it").toBe("COMPLETED");
  });

  test("a form that is unchanged, was changed back to the body, or whose update omitted the address is replayed for a new key until it has ended", async () => {
    const owner = await makeOwner();
    const first = await owner.create(owner.body);
    const update = (fields: Partial<FormBody>) => owner.forms.update({ id: first.form.id, ...owner.body, ...fields });
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
      await operator.forms.setStatus({ id: first.form.id, status, force: true });
      await expectReplay(status);
    }
    await update({ guestEmail: "other@example.com" });
    expect((await owner.create(owner.body, "another address")).replayed).toBe(false);
  });

  test("a create equal to the updated form creates a new form", async () => {
    const owner = await makeOwner();
    const first = await owner.create(owner.body);
    const changed = { ...owner.body, numberOfGuests: 9 };
    await owner.forms.update({ id: first.form.id, ...changed });
    const second = await owner.create(changed);
    expect(second.replayed).toBe(false);
    expect(await owner.create(changed, "k")).toEqual({ form: second.form, replayed: true });
    expect(await owner.create(owner.body)).toEqual({ form: first.form, replayed: true });
  });
});

test.each([
  ["an update of the form", undefined],
  ["a rejection", "REJECTED"],
  ["an invalidation", "INVALIDATED"],
  ["the check-out", "CHECKED_OUT"],
])(
  "a new Idempotency-Key after %s creates a second form with its own email, which equal requests then replay",
  async (_, status) => {
    const owner = await makeOwner();
    const first = await owner.create(owner.body, "first");
    const { id } = first.form;
    if (status) await operator.forms.setStatus({ id, status });
    else await owner.forms.update({ id, ...owner.body, numberOfGuests: 9 });
    expect(await owner.create(owner.body), "without a key").toEqual({ form: first.form, replayed: true });
    const second = await owner.create(owner.body, "second");
    expect(second).toMatchObject({ replayed: false, form: { status: "SENT" } });
    expect(second.form.id).not.toBe(first.form.id);
    expect(second.form.publicId).not.toBe(first.form.publicId);
    for (const key of [undefined, "second", "first", "third", "third", undefined]) {
      const { form } = key === "first" ? first : second;
      expect(await owner.create(owner.body, key)).toEqual({ form, replayed: true });
    }
    const other = { ...owner.body, numberOfGuests: 4 };
    for (const key of ["first", "second", "third"]) {
      expect(await catchErrorCode(owner.create(other, key))).toBe("IDEMPOTENCY_KEY_REUSED");
    }
    // Two creates and the change are audited.
    const rows = { forms: 2, creations: 2, emails: 2, keys: 3, audit: 3 };
    expect(await owner.countRows()).toEqual(rows);
  },
);

describe("a replay checks the scope", () => {
  test("without membership it is RESOURCE_NOT_FOUND, and with a new membership it is replayed", async () => {
    const owner = await makeOwner();
    const first = await owner.create(owner.body, "k");
    for (const role of ["READER", "NONE"] as const) {
      await setRole(owner.listingId, owner.userId, role);
      for (const key of [undefined, "k", "new"]) {
        expect(await catchErrorCode(owner.create(owner.body, key))).toBe("RESOURCE_NOT_FOUND");
      }
    }
    const other = owner.create({ ...owner.body, numberOfGuests: 3 }, "k");
    expect(await catchErrorCode(other)).toBe("RESOURCE_NOT_FOUND");
    await setRole(owner.listingId, owner.userId, "WRITER");
    expect(await owner.create(owner.body, "k")).toEqual({ form: first.form, replayed: true });
    expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 1 });
  });

  test("it is RESOURCE_NOT_FOUND while the form is on a listing out of scope", async () => {
    const owner = await makeOwner();
    const other = await makeOwner();
    await setRole(owner.listingId, other.userId, "WRITER");
    const first = await owner.create(owner.body, "k");
    await other.forms.update({ id: first.form.id, ...owner.body, listingId: other.listingId });
    for (const key of [undefined, "k"]) {
      expect(await catchServiceError(owner.create(owner.body, key))).toMatchObject({
        serviceCode: "RESOURCE_NOT_FOUND",
        message: "You no longer have access to the form that this request created.",
      });
    }
    await other.forms.update({ id: first.form.id, ...owner.body });
    expect(await owner.create(owner.body, "k")).toEqual({ form: first.form, replayed: true });
  });

  test("a form moved within the scope is replayed, unless the listing of the request is out of scope", async () => {
    const owner = await makeOwner();
    const second = await owner.addListing();
    const first = await owner.create(owner.body);
    await owner.forms.update({ id: first.form.id, ...owner.body, listingId: second.id });
    expect(await owner.create(owner.body)).toEqual({ form: first.form, replayed: true });
    await setRole(owner.listingId, owner.userId, "NONE");
    expect(await catchErrorCode(owner.create(owner.body))).toBe("RESOURCE_NOT_FOUND");
  });
});

test("a replay succeeds after the listing was deactivated or its guest limit was lowered, and IDEMPOTENCY_KEY_REUSED comes before the listing's rules; a second form needs them", async () => {
  const owner = await makeOwner();
  const first = await owner.create(owner.body, "k");
  await sql("UPDATE listings SET active = false, max_people_in_listing = 1 WHERE id = $1", owner.listingId);
  for (const key of [undefined, "k", "new"]) {
    expect(await owner.create(owner.body, key)).toEqual({ form: first.form, replayed: true });
  }
  const other = { ...owner.body, numberOfGuests: 5 };
  expect(await catchErrorCode(owner.create(other))).toBe("VALIDATION_ERROR");
  expect(await catchErrorCode(owner.create(other, "k"))).toBe("IDEMPOTENCY_KEY_REUSED");
  await operator.forms.setStatus({ id: first.form.id, status: "REJECTED" });
  expect(await catchErrorCode(owner.create(owner.body, "newer"))).toBe("VALIDATION_ERROR");
  expect(await owner.create(owner.body)).toEqual({ form: first.form, replayed: true });
});

test("after the form was deleted its body and its Idempotency-Keys can be used for new forms", async () => {
  const owner = await makeOwner();
  const first = await owner.create(owner.body, "k");
  await sql("DELETE FROM forms WHERE id = $1", first.form.id);
  const second = await owner.create({ ...owner.body, numberOfGuests: 3 }, "k");
  expect(second.replayed).toBe(false);
  expect((await owner.create(owner.body)).replayed).toBe(false);
});
