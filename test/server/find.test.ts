import { beforeAll, describe, expect, test } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields } from "../support/factories.js";
import { uniqueStay } from "../support/stays.js";

// What an operator types into Find, or gives a command as the name of a form.

const { owner, operator, makeKey, sql } = await openTestCore();
const { listingId, userId } = owner;

const idsOf = async (text: string) =>
  (await operator.find.byText({ text })).hits.map(({ kind, id }) => `${kind} ${id}`);

const createForm = (fields: Record<string, unknown> = {}) => owner.forms.create(uniqueStay(listingId, fields));

describe("exact matches", () => {
  beforeAll(async () => {
    const place = { ownerId: userId, address: "Ufer 20", city: "Berlin", country: "Germany", zipCode: "10999" };
    const zone = { timezone: "Europe/Berlin" };
    for (const number of [77, ...Array.from({ length: 10 }, (_, index) => 770 + index)]) {
      const { id } = await operator.listings.create({ ...place, ...zone, title: `Flat ${number}` });
      await sql("UPDATE listings SET external_id = $1 WHERE id = $2", `pms-${number}`, id);
      const user = await operator.users.create({ email: `host-${number}@example.com`, name: `Host ${number}` });
      await sql("UPDATE users SET external_id = $1 WHERE id = $2", `host-${number}`, user.id);
    }
  });

  test.each([
    ["listing", "pms-77", "Flat 77"],
    ["user", "host-77", "Host 77"],
    ["user", "HOST-77@example.com", "Host 77"],
  ])("of a %s by %s come first, and what contains it after them", async (kind, text, name) => {
    const { hits } = await operator.find.byText({ text });
    expect(hits[0]).toMatchObject({ kind, name });
    expect(hits.length).toBe(text.includes("@") ? 1 : 10);
  });

  test.each([
    ["listing", "pms-77", true],
    ["listing", "flat 77", true],
    ["user", "host-779", false],
  ] as const)(
    "of kind %s for %s are at most 10, and it says whether there are more: %s",
    async (kind, text, isMore) => {
      const { hits, more } = await operator.find.byText({ text });
      expect(hits.length).toBe(isMore ? 10 : 1);
      expect(more).toEqual(isMore ? [kind] : []);
    },
  );
});

describe("a form is found", () => {
  test("by its id in any case, the beginning of it, its public id, the guest's link, a Message-ID and its external id", async () => {
    const { id, publicId } = await createForm({ externalId: "booking 4711" });
    const texts = [
      id,
      id.toUpperCase(),
      shortId(id),
      `${shortId(id)}…`,
      id.slice(0, 23),
      publicId ?? "",
      `https://app.example.com/register/${publicId}?lang=de`,
      `<form-${id}-42@example.com>`,
      `emailId 7 formId ${id} sent`,
      "booking 4711",
    ];
    for (const text of texts) {
      expect([text, await idsOf(text)]).toEqual([text, expect.arrayContaining([`form ${id}`])]);
      expect([text, await operator.find.form({ form: text })]).toEqual([text, { id }]);
    }
  });

  test("by an external id that more than ten forms share, the newest first, as ten of more", async () => {
    const made: string[] = [];
    for (let count = 0; count < 11; count++) made.unshift((await createForm({ externalId: "shared" })).id);
    const { hits, more } = await operator.find.byText({ text: "shared" });
    expect(hits.map(({ id }) => id)).toEqual(made.slice(0, 10));
    expect(more).toEqual(["form"]);
    const { items } = await operator.forms.listAll({ externalId: "shared" });
    expect(items.map(({ id }) => id)).toEqual(made);
    expect(await catchRejectedFields(operator.find.form({ form: "shared" }))).toEqual(["form"]);
  });

  test("by its own id or public id first, even if it is the external id of another", async () => {
    const form = await createForm();
    for (const externalId of [form.id, form.publicId ?? ""]) {
      await createForm({ externalId });
      expect(await operator.find.form({ form: externalId })).toEqual({ id: form.id });
    }
  });

  test("by its guest's address in any case, the newest ten, each audited; an external id that looks like one is found, too", async () => {
    await sql("TRUNCATE audit_entries");
    const made: string[] = [];
    const guestEmail = "many.stays@mail.example.com";
    for (let count = 0; count < 11; count++) made.unshift((await createForm({ guestEmail })).id);
    const { id } = await createForm({ externalId: "booking@4711.example" });
    const { hits, more, unreadable } = await operator.find.byText({ text: guestEmail.toUpperCase() });
    expect(hits.map((hit) => hit.id)).toEqual(made.slice(0, 10));
    expect([more, unreadable]).toEqual([["form"], 0]);
    const lookUps = () =>
      sql("SELECT subject_id AS id FROM audit_entries WHERE action = 'person.looked_up' ORDER BY id");
    expect((await lookUps()).map((entry) => entry.id).sort()).toEqual(made.slice(0, 10).sort());
    expect(await idsOf("booking@4711.example")).toEqual([`form ${id}`]);
    expect(await lookUps()).toHaveLength(11);
    for (const text of ["booking@4711", `<form-${id}@example.com>`])
      expect(await operator.find.byText({ text })).toMatchObject({ unreadable: null });
    expect(await lookUps()).toHaveLength(11);
  });

  test("with the listing's title, the status and the check-in", async () => {
    const { id, checkInDate } = await createForm();
    const { hits } = await operator.find.byText({ text: id });
    const { title } = await operator.listings.getAny({ id: listingId });
    expect(hits).toEqual([{ kind: "form", id, name: title, about: "SENT", checkInDate, userId: null }]);
  });

  test("by nothing else: another text is RESOURCE_NOT_FOUND", async () => {
    for (const form of ["none", "00000000", listingId, "bba9c72", "-".repeat(21)])
      expect(await catchErrorCode(operator.find.form({ form }))).toBe("RESOURCE_NOT_FOUND");
  });
});

test("a key is found by itself, its first 12 characters and its id, and is looked for nowhere else", async () => {
  const { key } = await makeKey(userId);
  const [{ id } = { id: "" }] = await sql("SELECT id FROM api_keys ORDER BY created_at DESC LIMIT 1");
  for (const text of [key, `Bearer ${key}`, key.slice(0, 12), id]) expect(await idsOf(text)).toEqual([`key ${id}`]);
  expect(await idsOf(`grf_rw_${"x".repeat(49)}`)).toEqual([]);
});

test("a user, listing, endpoint and request are found by id and by its beginning", async () => {
  const { id: endpointId } = await operator.webhooks.create({ url: "https://receiver.example.com/" });
  const [{ id: requestId } = { id: "" }] = await sql("SELECT correlation_id AS id FROM audit_entries LIMIT 1");
  const found = { user: userId, listing: listingId, endpoint: endpointId, request: requestId };
  for (const [kind, id] of Object.entries(found)) {
    expect(await idsOf(id)).toContain(`${kind} ${id}`);
    expect(await idsOf(shortId(id))).toContain(`${kind} ${id}`);
  }
});

test("a text of another kind, too long or empty is rejected", async () => {
  for (const text of ["", " ", "x".repeat(2001), "a\u0000b", "\ud800"])
    expect(await catchRejectedFields(operator.find.byText({ text }))).toEqual(["text"]);
  for (const text of ["%", "€ 100 %", "x".repeat(2000)]) expect(await idsOf(text)).toEqual([]);
});
