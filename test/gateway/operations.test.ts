import { beforeAll, describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import type { Listing } from "../../server/listings/schema.js";
import type { Page } from "../../server/paging.js";
import { asOperator, makeForm, makeListing, setRole } from "../factories.js";
import {
  errorCodeOf,
  errorFieldsOf,
  type HttpRequest,
  type HttpResponse,
  type KeyHolder,
  startTestGateway,
  uniqueStay,
} from "../gateway-harness.js";
import { FORM_FIELDS } from "../public-fields.js";

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
const pageOf = <Item>({ json }: HttpResponse) => json as Page<Item>;
const countNotifications = () => gateway.countRows("notifications");
const countForms = () => gateway.countRows("forms");

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
    expect(answer.headers.location).toBe(`/v1/forms/${form.id}`);
    expect(answer.headers["idempotent-replayed"]).toBeUndefined();
    expect(Math.abs(Date.parse(form.createdAt) - began)).toBeLessThan(60_000);
    expect(formOf(await send({ path: answer.headers.location ?? "" }))).toEqual(form);
  });

  test("public ids have 21 URL-safe characters, and no two are equal", async () => {
    const ids = new Set<string | null>();
    for (let n = 0; n < 10; n++) ids.add(formOf(await create(uniqueStay(loft.id))).publicId);
    expect(ids.size).toBe(10);
    for (const id of ids) expect(id).toMatch(/^[\w-]{21}$/);
  });

  test("a create with guestEmail enqueues one notification; a replay or a create without it enqueues none", async () => {
    const before = await countNotifications();
    await create(uniqueStay(loft.id));
    await create(uniqueStay(loft.id, { guestEmail: null }));
    expect(await countNotifications()).toBe(before);
    const body = uniqueStay(loft.id, { guestEmail: "ana@example.com" });
    await create(body);
    expect(await countNotifications()).toBe(before + 1);
    expect((await create(body)).headers["idempotent-replayed"]).toBe("true");
    await create(body, "for the notification");
    expect(await countNotifications()).toBe(before + 1);
  });

  test("a rejected create enqueues no notification", async () => {
    const before = await countNotifications();
    const faulty = uniqueStay(loft.id, { numberOfGuests: 5, guestEmail: "ana@example.com" });
    expect((await create(faulty)).status).toBe(400);
    expect(await countNotifications()).toBe(before);
  });

  test("a writer of the listing can create a form, and a reader gets 404", async () => {
    const other = await gateway.addKeyHolder();
    await setRole(services, loft.id, other.userId, "WRITER");
    expect((await send({ method: "POST", key: other.key, body: uniqueStay(loft.id) })).status).toBe(201);
    await setRole(services, loft.id, other.userId, "READER");
    expect((await send({ method: "POST", key: other.key, body: uniqueStay(loft.id) })).status).toBe(404);
  });

  test("a create with a read-only key is FORBIDDEN and creates nothing", async () => {
    const before = await countForms();
    const answer = await send({ method: "POST", key: holder.readOnlyKey, body: uniqueStay(loft.id) });
    expect([answer.status, errorCodeOf(answer)]).toEqual([403, "FORBIDDEN"]);
    expect(await countForms()).toBe(before);
  });

  test("the stored mode of a key decides what it may do, not its prefix", async () => {
    const { key, id } = await gateway.issueKey(holder.userId, { mode: "READ_ONLY" });
    await services.db.prisma.apiKey.update({ where: { id }, data: { mode: "READ_WRITE" } });
    expect(key).toMatch(/^grf_ro_/);
    expect((await send({ method: "POST", key, body: uniqueStay(loft.id) })).status).toBe(201);
  });
});

describe("idempotency of create", () => {
  test("an equal create is replayed and makes no form, with no Idempotency-Key, the same or another", async () => {
    const body = uniqueStay(loft.id);
    const first = await create(body, "again-1");
    const before = await countForms();
    for (const key of [undefined, "again-1", "again-2", "again-2"]) {
      const answer = await create(body, key);
      expect([answer.status, answer.json]).toEqual([201, first.json]);
      expect(answer.headers["idempotent-replayed"]).toBe("true");
      expect(answer.headers.location).toBe(first.headers.location);
    }
    expect(await countForms()).toBe(before);
  });

  test("bodies are equal regardless of property order, white space, and notation of instants, ids and email domains", async () => {
    const first = await create({
      listingId: loft.id,
      checkInDate: "2030-09-01T15:00:00Z",
      checkOutDate: "2030-09-03T10:00:00Z",
      numberOfGuests: 2,
      guestEmail: "Ana@example.com",
    });
    const again = await create(
      `{ "guestEmail": "Ana@EXAMPLE.com",
         "numberOfGuests": 2.0,
         "checkOutDate": "2030-09-03T12:00:00.000+02:00",
         "checkInDate": "2030-09-01T15:00:00.0009Z",
         "listingId": "${loft.id.toUpperCase()}" }`,
    );
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(again.json).toEqual(first.json);
  });

  test.each([
    { checkInDate: "2030-10-01T15:00:00.001Z" },
    { checkOutDate: "2030-10-03T10:00:00.001Z" },
    { numberOfGuests: 3 },
    { guestEmail: "ana@example.com" },
  ])("a body that differs in %j creates a new form", async (difference) => {
    const body = {
      listingId: loft.id,
      checkInDate: "2030-10-01T15:00:00Z",
      checkOutDate: "2030-10-03T10:00:00Z",
      numberOfGuests: 2,
    };
    const first = await create(body);
    const other = await create({ ...body, ...difference });
    expect(other.headers["idempotent-replayed"]).toBeUndefined();
    expect(formOf(other).id).not.toBe(formOf(first).id);
  });

  test("an Idempotency-Key reused with a different body is IDEMPOTENCY_KEY_REUSED, and nothing is written", async () => {
    await create(uniqueStay(loft.id), "reused");
    const before = await gateway.snapshotTables();
    const answer = await create(uniqueStay(loft.id), "reused");
    expect([answer.status, errorCodeOf(answer)]).toEqual([422, "IDEMPOTENCY_KEY_REUSED"]);
    expect(await gateway.snapshotTables()).toEqual(before);
  });

  test("the Idempotency-Key of a rejected create can be used with a different body", async () => {
    expect((await create(uniqueStay(loft.id, { numberOfGuests: 5 }), "unbound")).status).toBe(400);
    expect((await create(uniqueStay(loft.id), "unbound")).status).toBe(201);
  });

  test("two holders can use the same Idempotency-Key and body independently", async () => {
    const other = await gateway.addKeyHolder();
    await setRole(services, loft.id, other.userId, "WRITER");
    const body = uniqueStay(loft.id);
    const mine = await create(body, "shared");
    const headers = { "Idempotency-Key": "shared" };
    const theirs = await send({ method: "POST", key: other.key, headers, body });
    expect(theirs.status).toBe(201);
    expect(theirs.headers["idempotent-replayed"]).toBeUndefined();
    expect(formOf(theirs).id).not.toBe(formOf(mine).id);
  });

  test("every key of a holder replays the holder's creates, even after a rotation", async () => {
    const issued = await gateway.issueKey(holder.userId);
    const body = uniqueStay(loft.id);
    const first = await create(body, "rotated");
    const rotated = await operator.keys.rotate({ id: issued.id });
    gateway.forbidInLog(rotated.key);
    const headers = { "Idempotency-Key": "rotated" };
    for (const key of [issued.key, rotated.key]) {
      const answer = await send({ method: "POST", key, headers, body });
      expect(answer.headers["idempotent-replayed"]).toBe("true");
      expect(answer.json).toEqual(first.json);
    }
  });

  test("after an update an equal create replays the original response, and a new Idempotency-Key creates a new form", async () => {
    const body = uniqueStay(loft.id);
    const first = await create(body, "before the change");
    await update(formOf(first).id, uniqueStay(loft.id));
    await operator.forms.setStatus({ id: formOf(first).id, status: "ACCEPTED" });
    for (const key of [undefined, "before the change"]) {
      const answer = await create(body, key);
      expect(answer.json).toEqual(first.json);
      expect(answer.headers["idempotent-replayed"]).toBe("true");
    }
    const second = await create(body, "after the change");
    expect(second.headers["idempotent-replayed"]).toBeUndefined();
    expect(formOf(second).id).not.toBe(formOf(first).id);
  });

  test("a replay is RESOURCE_NOT_FOUND once the form is out of scope", async () => {
    const other = await gateway.addKeyHolder();
    await setRole(services, loft.id, other.userId, "WRITER");
    await setRole(services, cottage.id, other.userId, "WRITER");
    const body = uniqueStay(loft.id);
    const first = await send({ method: "POST", key: other.key, body });
    await update(formOf(first).id, uniqueStay(cottage.id));
    await setRole(services, cottage.id, other.userId, "NONE");
    const answer = await send({ method: "POST", key: other.key, body });
    expect([answer.status, errorCodeOf(answer)]).toEqual([404, "RESOURCE_NOT_FOUND"]);
  });

  test("ten equal creates at the same time make one form and one notification, and all return that form", async () => {
    const body = uniqueStay(loft.id, { guestEmail: "ana@example.com" });
    const [formsBefore, notificationsBefore] = [await countForms(), await countNotifications()];
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => create(body, n % 2 ? "at once" : undefined)),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(new Set(answers.map((answer) => formOf(answer).id)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers["idempotent-replayed"] === undefined)).toHaveLength(1);
    expect([await countForms(), await countNotifications()]).toEqual([
      formsBefore + 1,
      notificationsBefore + 1,
    ]);
  });

  test("of ten different bodies sent at the same time with one Idempotency-Key, one creates a form and nine get 422", async () => {
    const before = await countForms();
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => create(uniqueStay(loft.id), "one of ten")),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(422)]);
    expect(await countForms()).toBe(before + 1);
  });
});

describe("update form", () => {
  test("an update answers 200 with the new stay, and id, publicId, status and createdAt do not change", async () => {
    const before = formOf(await create(uniqueStay(loft.id, { guestEmail: "ana@example.com" })));
    await operator.forms.setStatus({ id: before.id, status: "VALIDATED" });
    const body = uniqueStay(loft.id, { numberOfGuests: 3 });
    const answer = await update(before.id, body);
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({
      ...before,
      status: "VALIDATED",
      checkInDate: body.checkInDate,
      checkOutDate: body.checkOutDate,
      numberOfGuests: 3,
    });
    for (const header of ["location", "idempotent-replayed"]) expect(answer.headers[header]).toBeUndefined();
    expect((await send({ path: `/v1/forms/${before.id}` })).json).toEqual(answer.json);
  });

  test("repeating an update has no further effect", async () => {
    const { id } = formOf(await create(uniqueStay(loft.id)));
    const body = uniqueStay(loft.id);
    const first = await update(id, body);
    const second = await update(id.toUpperCase(), body);
    expect([second.status, second.json]).toEqual([200, first.json]);
  });

  test("an update with another listingId in scope moves the form there", async () => {
    const { id } = formOf(await create(uniqueStay(loft.id)));
    const answer = await update(id, uniqueStay(cottage.id, { numberOfGuests: 9 }));
    expect(formOf(answer)).toMatchObject({ id, listingId: cottage.id, numberOfGuests: 9 });
    const ids = async (listing: Listing) =>
      pageOf<FormV1>(await send({ path: `/v1/forms?limit=100&listingId=${listing.id}` })).items.map(
        (form) => form.id,
      );
    expect(await ids(cottage)).toContain(id);
    expect(await ids(loft)).not.toContain(id);
  });

  test("an update enqueues no notification, and keeps the stored email if guestEmail is absent or null", async () => {
    const { id } = formOf(await create(uniqueStay(loft.id, { guestEmail: "ana@example.com" })));
    const before = await countNotifications();
    for (const fields of [{}, { guestEmail: null }]) {
      await update(id, uniqueStay(loft.id, fields));
      const row = await services.db.prisma.form.findUniqueOrThrow({ where: { id } });
      expect(row.guestEmail).not.toBeNull();
    }
    await update(id, uniqueStay(loft.id, { guestEmail: "ben@example.com" }));
    expect(await countNotifications()).toBe(before);
  });

  test("a form on an inactive listing can be updated, but no form can be moved to an inactive listing", async () => {
    const closing = await makeListing(services, holder.userId);
    const { id } = formOf(await create(uniqueStay(closing.id)));
    const other = formOf(await create(uniqueStay(loft.id)));
    await services.db.prisma.listing.update({ where: { id: closing.id }, data: { active: false } });
    expect((await update(id, uniqueStay(closing.id))).status).toBe(200);
    const moved = await update(other.id, uniqueStay(closing.id));
    expect([moved.status, errorFieldsOf(moved)]).toEqual([400, ["listingId"]]);
    expect((await send({ path: `/v1/forms/${other.id}` })).json).toEqual(other);
  });

  test("an update with a read-only key is FORBIDDEN and changes nothing", async () => {
    const form = formOf(await create(uniqueStay(loft.id)));
    const answer = await send({
      method: "PUT",
      path: `/v1/forms/${form.id}`,
      key: holder.readOnlyKey,
      body: uniqueStay(loft.id),
    });
    expect([answer.status, errorCodeOf(answer)]).toEqual([403, "FORBIDDEN"]);
    expect((await send({ path: `/v1/forms/${form.id}` })).json).toEqual(form);
  });

  test("an update does not change the position of the form in the list", async () => {
    const other = await gateway.addKeyHolder();
    const listing = await makeListing(services, other.userId);
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push((await makeForm(services, other.userId, listing.id)).id);
    await send({ method: "PUT", path: `/v1/forms/${ids[0]}`, key: other.key, body: uniqueStay(listing.id) });
    const { items } = pageOf<FormV1>(await send({ key: other.key }));
    expect(items.map(({ id }) => id)).toEqual(ids);
  });
});

describe("the status of a form", () => {
  test.each(KNOWN_STATUSES)("the status %s is returned as stored", async (status) => {
    const { id } = await makeForm(services, holder.userId, loft.id);
    await operator.forms.setStatus({ id, status });
    expect(formOf(await send({ path: `/v1/forms/${id}` })).status).toBe(status);
  });

  test("any other stored status is returned as UNKNOWN, by fetch and by list", async () => {
    const listing = await makeListing(services, holder.userId);
    const { id } = await makeForm(services, holder.userId, listing.id);
    await operator.forms.setStatus({ id, status: "ON_HOLD", force: true });
    expect(formOf(await send({ path: `/v1/forms/${id}` })).status).toBe("UNKNOWN");
    const { items } = pageOf<FormV1>(await send({ path: `/v1/forms?listingId=${listing.id}` }));
    expect(items.map(({ status }) => status)).toEqual(["UNKNOWN"]);
  });
});

describe("fetch form", () => {
  test("a form has every field, null if it is not set", async () => {
    const listing = await makeListing(services, holder.userId, { maxVehicles: 3, allowPets: true });
    const { id, publicId } = await makeForm(services, holder.userId, listing.id);
    const empty = { checkInDate: null, checkOutDate: null, numberOfGuests: null };
    const { createdAt } = await services.db.prisma.form.update({ where: { id }, data: empty });
    const bare = { id, listingId: listing.id, publicId, status: "SENT", createdAt: createdAt.toISOString() };
    const path = `/v1/forms/${id}`;
    const nothing = { ...empty, numberOfVehicles: null, numberOfPets: null };
    expect((await send({ path })).json).toMatchObject({ ...bare, ...nothing });
    await services.db.prisma.form.update({ where: { id }, data: { numberOfVehicles: 2, numberOfPets: 0 } });
    const whole = { ...bare, ...empty, numberOfVehicles: 2, numberOfPets: 0 };
    const answer = await send({ path, key: holder.readOnlyKey });
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject(whole);
    expect(Object.keys(answer.json as object)).toEqual(Object.keys(FORM_FIELDS));
  });
});

describe("fetch listing", () => {
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

  test("a listing has every field", async () => {
    const { id, publicId, createdAt } = await makeListing(services, holder.userId, fields);
    const answer = await send({ path: `/v1/listings/${id}`, key: holder.readOnlyKey });
    expect([answer.status, answer.json]).toEqual([200, { id, publicId, createdAt, ...fields }]);
    const { items } = pageOf<Listing>(await send({ path: "/v1/listings?limit=100" }));
    expect(items.find((listing) => listing.id === id)).toEqual(answer.json);
  });

  test("a field of a listing is null if it is not set", async () => {
    const { title, address, city, country, zipCode, timezone } = fields;
    const { id } = await operator.listings.create({
      ...{ ownerId: holder.userId, title, address, city, country, zipCode, timezone },
    });
    expect((await send({ path: `/v1/listings/${id}` })).json).toMatchObject({
      district: null,
      active: true,
      maxPeopleInListing: null,
      maxVehicles: null,
      allowPets: null,
    });
  });
});

describe("lists", () => {
  let other: KeyHolder;
  const listings: Listing[] = [];
  const formIds: string[] = [];

  beforeAll(async () => {
    other = await gateway.addKeyHolder();
    for (let n = 0; n < 3; n++) listings.push(await makeListing(services, other.userId));
    // Several forms per creation time, so that the id decides their order.
    const rows = Array.from({ length: 120 }, (_, n) => ({
      publicId: `list-form-${String(n).padStart(11, "0")}`,
      listingId: String(listings[n % 2]?.id),
      createdAt: new Date(Date.UTC(2026, 0, 1 + (n % 7))),
      fingerprint: Buffer.alloc(32),
    }));
    await services.db.prisma.form.createMany({ data: rows });
    const stored = await services.db.prisma.form.findMany({
      where: { listingId: { in: listings.map(({ id }) => id) } },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    });
    formIds.push(...stored.map(({ id }) => id));
  });

  const list = (query: string, path = "/v1/forms") => send({ path: path + query, key: other.readOnlyKey });
  const idsOf = (answer: HttpResponse) => pageOf<{ id: string }>(answer).items.map(({ id }) => id);

  async function readAllPages(query: string, path = "/v1/forms"): Promise<string[][]> {
    const pages: string[][] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const answer = await list(`?${query}${cursor && `&cursor=${cursor}`}`, path);
      expect(answer.status).toBe(200);
      pages.push(idsOf(answer));
      cursor = pageOf(answer).nextCursor;
      expect(pages.length).toBeLessThan(200);
    }
    return pages;
  }

  test.each([
    ["", 50],
    ["?limit=1", 1],
    ["?limit=0", 1],
    ["?limit=-7", 1],
    ["?limit=99", 99],
    ["?limit=100", 100],
    ["?limit=101", 100],
    ["?limit=100000000000", 100],
  ])("the list of forms with the query “%s” has %i items, sorted by (createdAt, id)", async (query, size) => {
    const answer = await list(query);
    expect(idsOf(answer)).toEqual(formIds.slice(0, size));
    expect(pageOf(answer).nextCursor).not.toBeNull();
  });

  test.each([7, 40, 100])(
    "pages of %i return every form once, in order, and the last nextCursor is null",
    async (size) => {
      const pages = await readAllPages(`limit=${size}`);
      expect(pages.flat()).toEqual(formIds);
      expect(pages.map((page) => page.length).slice(0, -1)).toEqual(
        Array.from({ length: Math.ceil(120 / size) - 1 }, () => size),
      );
    },
  );

  test("a cursor works with another limit and with another key of the holder", async () => {
    const { nextCursor } = pageOf(await list("?limit=10"));
    const { key } = await gateway.issueKey(other.userId);
    const answer = await send({ path: `/v1/forms?limit=20&cursor=${nextCursor}`, key });
    expect(idsOf(answer)).toEqual(formIds.slice(10, 30));
  });

  test("pages with the same listingId return exactly the forms of that listing", async () => {
    const [first] = listings;
    const pages = await readAllPages(`limit=25&listingId=${first?.id}`);
    const own = await services.db.prisma.form.findMany({
      where: { listingId: String(first?.id) },
      orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    });
    expect(pages.flat()).toEqual(own.map(({ id }) => id));
    expect(pages).toHaveLength(3);
  });

  test("a cursor used with another listingId, without it, or on the other list is INVALID_CURSOR", async () => {
    const [first, second] = listings;
    const filtered = pageOf(await list(`?limit=1&listingId=${first?.id}`)).nextCursor;
    const plain = pageOf(await list("?limit=1")).nextCursor;
    const ofListings = pageOf(await list("?limit=1", "/v1/listings")).nextCursor;
    for (const [path, query] of [
      ["/v1/forms", `?cursor=${filtered}`],
      ["/v1/forms", `?cursor=${filtered}&listingId=${second?.id}`],
      ["/v1/forms", `?cursor=${plain}&listingId=${first?.id}`],
      ["/v1/forms", `?cursor=${ofListings}`],
      ["/v1/listings", `?cursor=${plain}`],
    ] as const) {
      const answer = await list(query, path);
      expect([answer.status, errorCodeOf(answer)], path + query).toEqual([400, "INVALID_CURSOR"]);
    }
    const again = await list(`?limit=1&cursor=${filtered}&listingId=${first?.id.toUpperCase()}`);
    expect(again.status).toBe(200);
  });

  test("a listing without forms and a listing out of scope return the same empty page", async () => {
    const empty = await list(`?listingId=${listings[2]?.id}`);
    const foreign = await list(`?listingId=${loft.id}`);
    for (const answer of [empty, foreign]) {
      expect([answer.status, answer.json]).toEqual([200, { items: [], nextCursor: null }]);
    }
  });

  test("the list of listings returns exactly the listings in scope, in order, at any page size", async () => {
    await setRole(services, loft.id, other.userId, "READER");
    await setRole(services, cottage.id, other.userId, "WRITER");
    const own = [...listings, cottage].sort((a, b) =>
      a.createdAt === b.createdAt ? (a.id < b.id ? -1 : 1) : a.createdAt < b.createdAt ? -1 : 1,
    );
    for (const size of [1, 2, 100]) {
      expect((await readAllPages(`limit=${size}`, "/v1/listings")).flat()).toEqual(own.map(({ id }) => id));
    }
    await setRole(services, cottage.id, other.userId, "NONE");
  });

  test("a holder without listings gets empty pages", async () => {
    const { key } = await gateway.addKeyHolder();
    for (const path of ["/v1/forms", "/v1/listings"]) {
      const answer = await send({ path, key });
      expect([answer.status, answer.json]).toEqual([200, { items: [], nextCursor: null }]);
    }
  });
});
