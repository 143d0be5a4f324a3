import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { ERRORS } from "../../server/errors.js";
import {
  asOperator,
  catchErrorCode,
  catchServiceError,
  createFormWithOutcome,
  keyPrincipal,
  makeKey,
  openTestServices,
  setRole,
} from "../support/factories.js";
import { makeListingOwner, NO_ROWS, ONE_FORM } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";

let services: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
});

describe("an equal body", () => {
  test.each([
    ["no", undefined],
    ["an", "one"],
  ])(
    "with no, the same or another Idempotency-Key is replayed and writes nothing but new keys, if the first create had %s Idempotency-Key",
    async (_, firstKey) => {
      const owner = await makeListingOwner(services);
      const first = await owner.create(owner.body, firstKey);
      expect(first.replayed).toBe(false);
      for (const key of [undefined, "one", "one", "two", undefined, "one"]) {
        expect(await owner.create(owner.body, key)).toEqual({ form: first.form, replayed: true });
      }
      expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 2 });
    },
  );

  test("is compared by value: property order, offset, email domain case and UUID case do not matter", async () => {
    const owner = await makeListingOwner(services);
    const body = {
      listingId: owner.listingId,
      checkInDate: "2027-07-01T13:00:00.000Z",
      checkOutDate: "2027-07-08T09:00:00.000Z",
      numberOfGuests: 2,
      guestEmail: "Guest.Name@example.com",
    };
    const first = await owner.create(body);
    const equalBodies = [
      { ...body, checkInDate: "2027-07-01T15:00:00+02:00", checkOutDate: "2027-07-08T09:00:00.000999-00:00" },
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
      { ...body, checkInDate: "2027-07-01T13:00:00.001Z" },
      { ...body, checkOutDate: "2027-07-08T09:00:01Z" },
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

  test("with guestEmail null equals one without guestEmail", async () => {
    const owner = await makeListingOwner(services);
    const body = fixedStay(owner.listingId);
    const first = await owner.create(body);
    for (const guestEmail of [null, undefined]) {
      const again = { ...body, ...(guestEmail === null && { guestEmail }) };
      expect(await owner.create(again)).toEqual({ form: first.form, replayed: true });
    }
  });
});

describe("an Idempotency-Key reused with another body", () => {
  test("is IDEMPOTENCY_KEY_REUSED and writes nothing, whether a create or a replay bound the key, and whether the body was created before", async () => {
    const owner = await makeListingOwner(services);
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
    const owner = await makeListingOwner(services);
    const second = await owner.addListing();
    const { form } = await owner.create(owner.body, "k");
    const other = { ...owner.body, listingId: second.id };
    const readMessage = async () => (await catchServiceError(owner.create(other, "k"))).message;
    expect(await readMessage()).toContain(`belongs to form ${form.id}`);
    expect(await readMessage()).toContain(`PUT /v1/forms/${form.id}`);
    for (const role of ["READER", "NONE"] as const) {
      await setRole(services, owner.listingId, owner.userId, role);
      expect(await readMessage()).toBe(ERRORS.IDEMPOTENCY_KEY_REUSED.message);
    }
  });

  test("keys that differ in case or spaces are different keys", async () => {
    const owner = await makeListingOwner(services);
    const ids = new Set<string>();
    for (const [index, key] of ["k", "K", " k", "k "].entries()) {
      const { form } = await owner.create({ ...owner.body, numberOfGuests: index + 1 }, key);
      ids.add(form.id);
    }
    expect(ids.size).toBe(4);
  });
});

describe("a failed create", () => {
  test("binds neither its Idempotency-Key nor its body, whatever the error", async () => {
    const owner = await makeListingOwner(services, { maxPeopleInListing: 4 });
    const { body } = owner;
    const inactive = await owner.addListing({ active: false });
    const foreign = await makeListingOwner(services);
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
});

describe("Idempotency-Keys and fingerprints belong to a key holder", () => {
  test("key holders on the same listing do not see each other's keys or fingerprints", async () => {
    const owner = await makeListingOwner(services);
    const second = await makeListingOwner(services);
    await setRole(services, owner.listingId, second.userId, "WRITER");
    const first = await owner.create(owner.body, "key");
    const theirs = await second.create(owner.body, "key");
    expect(theirs.replayed).toBe(false);
    expect(theirs.form.id).not.toBe(first.form.id);
    const third = await makeListingOwner(services);
    await setRole(services, owner.listingId, third.userId, "WRITER");
    expect((await third.create({ ...owner.body, numberOfGuests: 5 }, "key")).replayed).toBe(false);
    expect((await owner.create(owner.body, "key")).form).toEqual(first.form);
    expect((await second.create(owner.body)).form).toEqual(theirs.form);
  });

  test("all keys of a holder, rotated ones included, and the holder as a user replay each other's creates", async () => {
    const owner = await makeListingOwner(services);
    const key = await makeKey(services, owner.userId);
    const first = await createFormWithOutcome(services, keyPrincipal(key), owner.body, {
      idempotencyKey: "k",
    });
    const rotated = await asOperator(services).keys.rotate({ id: key.id });
    const other = await makeKey(services, owner.userId);
    for (const { id } of [rotated, other]) {
      const principal = keyPrincipal({ ...key, id });
      const again = { form: first.form, replayed: true };
      expect(await createFormWithOutcome(services, principal, owner.body, { idempotencyKey: "k" })).toEqual(
        again,
      );
      expect(await createFormWithOutcome(services, principal, owner.body)).toEqual(again);
    }
    expect(await owner.create(owner.body)).toEqual({ form: first.form, replayed: true });
    const changed = createFormWithOutcome(services, keyPrincipal(other), fixedStay(owner.listingId), {
      idempotencyKey: "k",
    });
    expect(await catchErrorCode(changed)).toBe("IDEMPOTENCY_KEY_REUSED");
  });
});
