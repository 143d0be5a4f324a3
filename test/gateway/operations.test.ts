import { beforeAll, describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import type { Page } from "../../server/paging.js";
import { asOperator, makeForm, makeListing, setRole } from "../support/factories.js";
import { writeFixtures } from "../support/form-write-guard.js";
import { type HttpRequest, type KeyHolder, startTestGateway } from "../support/gateway.js";
import { FORM_FIELDS } from "../support/public-fields.js";
import { errorCodeOf, errorFieldsOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

// Sequences of requests. The rules of single requests are in test/contract/catalog, those of the core in test/server.

const gateway = await startTestGateway();
const services = await gateway.services();
const operator = asOperator(services);
let holder: KeyHolder;
let loft: Listing;
let cottage: Listing;

beforeAll(async () => {
  holder = await gateway.addKeyHolder();
  loft = await makeListing(services, holder.userId, { maxPeopleInListing: 4 });
  cottage = await makeListing(services, holder.userId);
});

const send = (sent: Partial<HttpRequest>) => gateway.request({ path: "/v1/forms", key: holder.key, ...sent });
const create = (body: unknown, idempotencyKey?: string) =>
  send({ method: "POST", body, ...(idempotencyKey && { headers: { "Idempotency-Key": idempotencyKey } }) });
const update = (id: string, body: unknown) => send({ method: "PUT", path: `/v1/forms/${id}`, body });
const formOf = ({ json }: HttpResponse) => json as FormV1;
const countRows = async () => [await gateway.countRows("forms"), await gateway.countRows("notifications")];

describe("create form", () => {
  test("a create answers 201 with the form and its Location", async () => {
    const began = Date.now();
    const answer = await create({
      listingId: loft.id.toUpperCase(),
      checkInDate: "2030-07-01T15:00:00+02:00",
      checkOutDate: "2030-07-08T11:00:00.5+02:00",
      numberOfGuests: 4,
      guestEmail: "ana@example.com",
    });
    expect(answer.status).toBe(201);
    const form = formOf(answer);
    expect(form).toMatchObject({
      listingId: loft.id,
      status: "SENT",
      checkInDate: "2030-07-01T13:00:00.000Z",
      checkOutDate: "2030-07-08T09:00:00.500Z",
      numberOfGuests: 4,
      numberOfVehicles: null,
      numberOfPets: null,
    });
    expect(Object.keys(form)).toEqual(Object.keys(FORM_FIELDS));
    expect(answer.headers.location).toBe(`/v1/forms/${form.id}`);
    expect(answer.headers["idempotent-replayed"]).toBeUndefined();
    expect(Math.abs(Date.parse(form.createdAt) - began)).toBeLessThan(60_000);
    expect(formOf(await send({ path: answer.headers.location ?? "" }))).toEqual(form);
  });

  test("an equal create with no Idempotency-Key, the same or another is a replay: 201, the same body and Location, no form and no notification", async () => {
    const body = uniqueStay(loft.id, { guestEmail: "Ana@example.com" });
    const first = await create(body, "again-1");
    const before = await countRows();
    for (const key of [undefined, "again-1", "again-2", "again-2"]) {
      const answer = await create(body, key);
      expect([answer.status, answer.text]).toEqual([201, first.text]);
      expect(answer.headers["idempotent-replayed"]).toBe("true");
      expect(answer.headers.location).toBe(first.headers.location);
    }
    const inOtherWords = await create(
      `{ "guestEmail": "Ana@EXAMPLE.com", "numberOfGuests": 2.0, "listingId": "${loft.id.toUpperCase()}",
         "checkOutDate": "${body.checkOutDate}", "checkInDate": "${body.checkInDate.replace("Z", "000+00:00")}" }`,
    );
    expect([inOtherWords.headers["idempotent-replayed"], inOtherWords.text]).toEqual(["true", first.text]);
    expect(await countRows()).toEqual(before);
  });

  test("an Idempotency-Key reused with a different body is IDEMPOTENCY_KEY_REUSED, and nothing is written", async () => {
    const { id } = formOf(await create(uniqueStay(loft.id), "reused"));
    const before = await gateway.snapshotTables();
    const answer = await create(uniqueStay(loft.id), "reused");
    expect([answer.status, errorCodeOf(answer)]).toEqual([422, "IDEMPOTENCY_KEY_REUSED"]);
    expect(answer.json).toMatchObject({ message: expect.stringContaining(id) });
    expect(await gateway.snapshotTables()).toEqual(before);
  });

  test("a stay rebooked with a new Idempotency-Key after its form was rejected is a new form", async () => {
    const body = uniqueStay(loft.id);
    const { id } = formOf(await create(body, "booked"));
    await operator.forms.setStatus({ id, status: "REJECTED" });
    expect((await create(body)).headers["idempotent-replayed"]).toBe("true");
    const rebooked = await create(body, "rebooked");
    expect(rebooked.headers).not.toHaveProperty("idempotent-replayed");
    expect(formOf(rebooked)).toMatchObject({ status: "SENT" });
    expect(formOf(rebooked).id).not.toBe(id);
    expect((await create(body)).text).toBe(rebooked.text);
  });

  test("a replay whose form was moved to a listing out of scope is RESOURCE_NOT_FOUND", async () => {
    const body = uniqueStay(loft.id);
    const { id } = formOf(await create(body, "moved"));
    const mover = await gateway.addKeyHolder();
    await setRole(services, loft.id, mover.userId, "WRITER");
    const { id: target } = await makeListing(services, mover.userId);
    const moved = { method: "PUT", path: `/v1/forms/${id}`, key: mover.key, body: uniqueStay(target) };
    expect((await send(moved)).status).toBe(200);
    for (const key of [undefined, "moved"]) {
      const answer = await create(body, key);
      expect([answer.status, errorCodeOf(answer)]).toEqual([404, "RESOURCE_NOT_FOUND"]);
    }
  });

  test("ten equal creates at the same time make one form and one notification, and all return that form", async () => {
    const body = uniqueStay(loft.id, { guestEmail: "ana@example.com" });
    const [forms = 0, notifications = 0] = await countRows();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => create(body, n % 2 ? "at once" : undefined)),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(new Set(answers.map((answer) => formOf(answer).id)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers["idempotent-replayed"] === undefined)).toHaveLength(1);
    expect(await countRows()).toEqual([forms + 1, notifications + 1]);
  });
});

describe("update form", () => {
  test("an update answers 200 with the new stay; id, publicId, status and createdAt do not change, and repeating it has no effect", async () => {
    const before = formOf(await create(uniqueStay(loft.id, { guestEmail: "ana@example.com" })));
    await operator.forms.setStatus({ id: before.id, status: "VALIDATED" });
    const rows = await countRows();
    const { checkInDate, checkOutDate, ...body } = uniqueStay(cottage.id, { numberOfGuests: 9 });
    const expected = { ...before, ...body, checkInDate, checkOutDate, status: "VALIDATED" };
    for (const id of [before.id, before.id.toUpperCase()]) {
      const answer = await update(id, { ...body, checkInDate, checkOutDate });
      expect([answer.status, answer.json]).toEqual([200, expected]);
      for (const header of ["location", "idempotent-replayed"])
        expect(answer.headers[header]).toBeUndefined();
    }
    expect((await send({ path: `/v1/forms/${before.id}` })).json).toEqual(expected);
    expect(await countRows()).toEqual(rows);
  });

  test("an update without guestEmail keeps the address: an equal create with a new Idempotency-Key stays a replay", async () => {
    const stay = uniqueStay(loft.id);
    const original = { ...stay, guestEmail: "ana@example.com" };
    const { id } = formOf(await create(original));
    const idAfterUpdate = async (body: unknown, newKey: string) => {
      expect((await update(id, body)).status).toBe(200);
      return formOf(await create(original, newKey)).id;
    };
    expect(await idAfterUpdate(stay, "address kept")).toBe(id);
    expect(await idAfterUpdate({ ...stay, guestEmail: "ben@example.com" }, "address replaced")).not.toBe(id);
  });

  test("a move to a listing that does not allow the form's vehicles or pets is VALIDATION_ERROR, and changes nothing", async () => {
    const strict = await makeListing(services, holder.userId, { maxVehicles: 1, allowPets: false });
    const { id } = formOf(await create(uniqueStay(loft.id)));
    for (const party of [
      { numberOfVehicles: 2, numberOfPets: 0 },
      { numberOfVehicles: 1, numberOfPets: 1 },
    ]) {
      const before = await operator.forms.setParty({ id, ...party });
      const answer = await update(id, uniqueStay(strict.id));
      expect([answer.status, errorFieldsOf(answer)]).toEqual([400, ["listingId"]]);
      expect(formOf(await send({ path: `/v1/forms/${id}` }))).toEqual(before);
    }
    await operator.forms.setParty({ id, numberOfVehicles: 1, numberOfPets: 0 });
    expect(formOf(await update(id, uniqueStay(strict.id))).listingId).toBe(strict.id);
  });
});

test("a stored status that this version does not know is returned as UNKNOWN, by fetch and by list", async () => {
  const listing = await makeListing(services, holder.userId);
  const { id } = await makeForm(services, holder.userId, listing.id);
  await operator.forms.setStatus({ id, status: "ON_HOLD", force: true });
  expect(formOf(await send({ path: `/v1/forms/${id}` })).status).toBe("UNKNOWN");
  const { items } = (await send({ path: `/v1/forms?listingId=${listing.id}` })).json as Page<FormV1>;
  expect(items.map(({ status }) => status)).toEqual(["UNKNOWN"]);
});

test("a listing has every field, by fetch and by list", async () => {
  const fields = {
    title: "Loft “by the canal” ☀",
    address: "Kanalweg 7",
    city: "Berlin",
    country: "Germany",
    zipCode: "010997",
    district: "Kreuzberg",
    timezone: "Europe/Berlin",
    active: false,
    maxPeopleInListing: 4,
    maxVehicles: 0,
    allowPets: false,
  };
  const { id, publicId, createdAt } = await makeListing(services, holder.userId, fields);
  const answer = await send({ path: `/v1/listings/${id}`, key: holder.readOnlyKey });
  expect([answer.status, answer.json]).toEqual([200, { id, publicId, createdAt, ...fields }]);
  const { items } = (await send({ path: "/v1/listings?limit=100" })).json as Page<Listing>;
  expect(items.find((listing) => listing.id === id)).toEqual(answer.json);
});

describe("lists", () => {
  let other: KeyHolder;
  let listings: Listing[];
  /** In the order of the list. */
  let formIds: string[];

  beforeAll(async () => {
    other = await gateway.addKeyHolder();
    listings = [await makeListing(services, other.userId), await makeListing(services, other.userId)];
    // Several forms per creation time, so that the id decides their order.
    const data = Array.from({ length: 120 }, (_, n) => ({
      publicId: `list-form-${String(n).padStart(11, "0")}`,
      listingId: String(listings[n % 2]?.id),
      createdAt: new Date(Date.UTC(2026, 0, 1 + (n % 7))),
      fingerprint: Buffer.alloc(32),
    }));
    await writeFixtures(services.db, (tx) => tx.form.createMany({ data }));
    const stored = await services.db.prisma.form.findMany({
      where: { listingId: { in: listings.map(({ id }) => id) } },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    });
    formIds = stored.map(({ id }) => id);
  });

  async function list(query: string, path = "/v1/forms") {
    const answer = await send({ path: path + query, key: other.readOnlyKey });
    expect(answer.status).toBe(200);
    const { items, nextCursor } = answer.json as Page<{ id: string }>;
    return { ids: items.map(({ id }) => id), nextCursor };
  }

  test.each([
    ["", 50],
    ["?limit=101", 100],
  ])("the list of forms with the query “%s” has %i items, sorted by (createdAt, id)", async (query, size) => {
    const { ids, nextCursor } = await list(query);
    expect(ids).toEqual(formIds.slice(0, size));
    expect(nextCursor).not.toBeNull();
  });

  test("pages return every item once, in order, with and without listingId, and the last nextCursor is null", async () => {
    const [first] = listings;
    const { items } = (await send({ path: `/v1/forms?limit=100&listingId=${first?.id}`, key: other.key }))
      .json as Page<FormV1>;
    const ofFirst = items.map(({ id }) => id);
    expect(ofFirst).toHaveLength(60);
    for (const [path, filter, size, expected] of [
      ["/v1/forms", "", 40, formIds],
      ["/v1/forms", `&listingId=${first?.id.toUpperCase()}`, 25, ofFirst],
      ["/v1/listings", "", 1, listings.map(({ id }) => id)],
    ] as const) {
      const read: string[] = [];
      let cursor: string | null = "";
      for (let pages = 0; cursor !== null; pages++) {
        const page = await list(`?limit=${size}${filter}${cursor && `&cursor=${cursor}`}`, path);
        read.push(...page.ids);
        cursor = page.nextCursor;
        expect(pages).toBeLessThan(expected.length / size);
      }
      expect(read).toEqual(expected);
    }
  });

  test("a cursor used with another listingId, without it, or on the other list is INVALID_CURSOR", async () => {
    const [first, second] = listings;
    const filtered = (await list(`?limit=1&listingId=${first?.id}`)).nextCursor;
    const plain = (await list("?limit=1")).nextCursor;
    for (const path of [
      `/v1/forms?cursor=${filtered}`,
      `/v1/forms?cursor=${filtered}&listingId=${second?.id}`,
      `/v1/forms?cursor=${plain}&listingId=${first?.id}`,
      `/v1/listings?cursor=${plain}`,
    ]) {
      const answer = await send({ path, key: other.key });
      expect([answer.status, errorCodeOf(answer)], path).toEqual([400, "INVALID_CURSOR"]);
    }
  });
});
