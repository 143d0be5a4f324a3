import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { catchServiceError } from "../support/factories.js";
import { fixedStay, uniqueStay } from "../support/stays.js";

const { services, owner, operator, sql, makeOwner, asUser } = await openTestCore();
const { listingId, forms } = owner;

describe("an external id", () => {
  test("makes two forms of equal stays, each with replays of its own", async () => {
    const stay = uniqueStay(listingId);
    const [a, b, none] = [{ ...stay, externalId: "a" }, { ...stay, externalId: "b" }, stay];
    const created = [await forms.create(a), await forms.create(b), await forms.create(none)];
    expect(created.map(({ externalId }) => externalId)).toEqual(["a", "b", null]);
    expect(new Set(created.map(({ id }) => id)).size).toBe(3);
    const again = [await owner.create(a, "k1"), await owner.create(b, "k2"), await owner.create({ ...none }, "k3")];
    expect(again).toEqual(created.map((form) => ({ form, replayed: true })));
  });

  test("that is null on a create counts as absent", async () => {
    const stay = uniqueStay(listingId);
    const { id } = await forms.create({ ...stay, externalId: null });
    expect((await forms.create(stay)).id).toBe(id);
  });

  test("need not be unique, and is compared exactly, without spaces around it", async () => {
    const stay = uniqueStay(listingId);
    const other = uniqueStay(listingId);
    const form = await forms.create({ ...stay, externalId: " b\u200bö " });
    expect(form.externalId).toBe("b\u200bö");
    expect((await owner.create({ ...stay, externalId: "b\u200bö" })).replayed).toBe(true);
    for (const externalId of ["bö", "B\u200bö", "b\u200bo\u0308"])
      expect((await owner.create({ ...stay, externalId })).replayed).toBe(false);
    expect((await forms.create({ ...other, externalId: "b\u200bö" })).id).not.toBe(form.id);
  });

  test.each([
    ["is empty", ""],
    ["has only spaces", " \u00a0 "],
    ["is longer than 255 UTF-16 code units", `${"a".repeat(254)}😀`],
    ["has a control character", "a\tb"],
    ["has a control character of C1", "a\u0085b"],
    ["has NUL", "a\0b"],
    ["has a lone surrogate", "a\ud83d"],
    ["has a bidi control", "a\u202eb"],
    ["has a bidi isolate", "a\u2066b"],
    ["is a number", 4711],
    ["is an array", ["a"]],
    ["is an object", {}],
    ["is true", true],
  ])("that %s is a VALIDATION_ERROR of that field alone, for a create and an update", async (_, externalId) => {
    const body = { ...fixedStay(listingId), externalId } as ReturnType<typeof fixedStay>;
    const { id } = await owner.addForm();
    for (const call of [forms.create(body), forms.update({ id, ...body })]) {
      const { serviceCode, errors } = await catchServiceError(call);
      expect([serviceCode, errors?.map(({ field }) => field)]).toEqual(["VALIDATION_ERROR", ["externalId"]]);
    }
  });

  test("of 255 UTF-16 code units is stored as sent", async () => {
    const externalId = `${"a".repeat(253)}😀`;
    const form = await forms.create({ ...uniqueStay(listingId), externalId });
    expect(form.externalId).toBe(externalId);
    expect((await forms.get({ id: form.id })).externalId).toBe(externalId);
  });

  test("is kept by an update without it, changed by another, and removed by null", async () => {
    const stay = uniqueStay(listingId);
    const { id } = await forms.create({ ...stay, externalId: "a" });
    const ids = [];
    for (const change of [{ numberOfGuests: 3 }, { externalId: "b" }, { externalId: null }, {}])
      ids.push((await forms.update({ id, ...stay, ...change })).externalId);
    expect(ids).toEqual(["a", "b", null, null]);
    expect(await fieldsOf(id)).toEqual([["numberOfGuests"], ["numberOfGuests", "externalId"], ["externalId"]]);
  });

  const fieldsOf = async (id: string) =>
    (await operator.audit.trail({ subjectId: id, limit: 100 }))
      .filter(({ action }) => action === "form.updated")
      .map(({ details }) => details.fields)
      .reverse();

  test("that an update adds does not make the form differ from creates without one", async () => {
    const stay = uniqueStay(listingId);
    const { form } = await owner.create(stay, "first");
    await forms.update({ id: form.id, ...stay, externalId: "adopted" });
    for (const key of [undefined, "first", "never used before"])
      expect(await owner.create(stay, key)).toEqual({ form, replayed: true });
    const own = await owner.create({ ...stay, externalId: "adopted" });
    expect(own.replayed).toBe(false);
    // Any other change does.
    await forms.update({ id: form.id, ...stay, numberOfGuests: 4 });
    expect((await owner.create(stay, "another")).replayed).toBe(false);
  });

  test("that an update changes or removes makes the form differ from creates with it", async () => {
    for (const externalId of ["other", null]) {
      const stay = { ...uniqueStay(listingId), externalId: `own ${externalId}` };
      const { form } = await owner.create(stay);
      await forms.update({ id: form.id, ...stay, externalId });
      expect(await owner.create(stay)).toEqual({ form, replayed: true });
      expect((await owner.create(stay, `new ${externalId}`)).replayed).toBe(false);
    }
  });

  test("is not part of the fingerprints of requests without one", async () => {
    // A fingerprint of version 1.0.0, of this body and with the secret of the tests.
    const body = { ...fixedStay(listingId), numberOfGuests: 61 };
    const { id } = await forms.create(body);
    const [row] = await sql("SELECT fingerprint FROM creations WHERE form_id = $1", id);
    const text = JSON.stringify({
      checkInDate: Date.parse(`${body.checkInDate}`),
      checkOutDate: Date.parse(`${body.checkOutDate}`),
      listingId,
      numberOfGuests: 61,
    });
    const [key] = services.keyring.fingerprint;
    expect(row.fingerprint).toEqual(Buffer.concat([Buffer.of(1), createHmac("sha256", key).update(text).digest()]));
  });

  test("of a listing is public, as the operator has set it", async () => {
    const { listings } = asUser(owner.userId);
    await sql("UPDATE listings SET external_id = 'loft-1' WHERE id = $1", listingId);
    expect((await listings.get({ id: listingId })).externalId).toBe("loft-1");
    expect((await listings.list({})).items.map(({ externalId }) => externalId)).toEqual(["loft-1"]);
  });

  test("of another holder's booking is another form", async () => {
    const other = await makeOwner();
    const stay = { ...uniqueStay(listingId), externalId: "shared" };
    const mine = await forms.create(stay);
    const theirs = await other.forms.create({ ...stay, listingId: other.listingId });
    expect(theirs.id).not.toBe(mine.id);
    expect(theirs.externalId).toBe("shared");
  });
});
