import { beforeAll, describe, expect, test } from "vitest";
import type { Listing } from "../../server/listings/schema.js";
import { asOperator, makeForm, makeListing, setRole } from "../support/factories.js";
import { type HttpRequest, type KeyHolder, startTestGateway } from "../support/gateway.js";
import { errorCodeOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

const gateway = await startTestGateway();
/** Another process on the same database. */
const second = await startTestGateway({ DATABASE_URL: String(gateway.settings.DATABASE_URL) });
const services = await gateway.services();
const MISSING = "6f6f6f6f-6666-4666-8666-6f6f6f6f6f6f";

let holder: KeyHolder;
let listing: Listing;
let form: string;
/** Of another holder. */
let otherTenants: { listing: string; form: string };
/** Of another holder; `holder` is a reader of the listing. */
let readerOnly: { listing: string; form: string };

beforeAll(async () => {
  holder = await gateway.addKeyHolder();
  listing = await makeListing(services, holder.userId);
  form = (await makeForm(services, holder.userId, listing.id)).id;
  const neighbor = await gateway.addKeyHolder();
  const makeListingWithForm = async () => {
    const { id } = await makeListing(services, neighbor.userId);
    return { listing: id, form: (await makeForm(services, neighbor.userId, id)).id };
  };
  otherTenants = await makeListingWithForm();
  readerOnly = await makeListingWithForm();
  await setRole(services, readerOnly.listing, holder.userId, "READER");
});

const send = (sent: HttpRequest) => gateway.request({ key: holder.key, ...sent });

/** The parts of a response that could reveal whether the id exists. */
function comparable({ status, headers, text }: HttpResponse) {
  const { date: _date, ratelimit: _counters, "x-correlation-id": id = "", ...more } = headers;
  return { status, headers: more, text: text.replaceAll(id, "") };
}

describe("a form or listing out of scope gets the same response as one that does not exist", () => {
  const cases: [name: string, request: (id: { listing: string; form: string }) => HttpRequest][] = [
    ["fetching a form", ({ form: id }) => ({ path: `/v1/forms/${id}` })],
    ["HEAD of a form", ({ form: id }) => ({ method: "HEAD", path: `/v1/forms/${id}` })],
    ["OPTIONS of a form", ({ form: id }) => ({ method: "OPTIONS", path: `/v1/forms/${id}` })],
    ["another method on a form", ({ form: id }) => ({ method: "DELETE", path: `/v1/forms/${id}` })],
    ["fetching a listing", ({ listing: id }) => ({ path: `/v1/listings/${id}` })],
    ["listing forms by a listing", ({ listing: id }) => ({ path: `/v1/forms?listingId=${id}` })],
    [
      "creating on a listing",
      ({ listing: id }) => ({
        method: "POST",
        path: "/v1/forms",
        body: uniqueStay(id, { guestEmail: "ana@example.com" }),
      }),
    ],
    [
      "updating a form",
      ({ form: id }) => ({ method: "PUT", path: `/v1/forms/${id}`, body: uniqueStay(listing.id) }),
    ],
    [
      "updating a form with a faulty body",
      ({ form: id }) => ({
        method: "PUT",
        path: `/v1/forms/${id}`,
        body: uniqueStay(listing.id, { numberOfGuests: 0 }),
      }),
    ],
    [
      "moving a form to a listing",
      ({ listing: id }) => ({ method: "PUT", path: `/v1/forms/${form}`, body: uniqueStay(id) }),
    ],
    [
      "moving a form from one to another",
      (id) => ({ method: "PUT", path: `/v1/forms/${id.form}`, body: uniqueStay(id.listing) }),
    ],
  ];
  test.each(cases)("%s", async (_name, request) => {
    const missing = comparable(await send(request({ listing: MISSING, form: MISSING })));
    expect(comparable(await send(request(otherTenants)))).toEqual(missing);
    expect(comparable(await send(request(readerOnly)))).toEqual(missing);
  });

  test("a deleted form or listing gets the same response as one that never existed", async () => {
    const gone = await makeListing(services, holder.userId);
    const { id } = await makeForm(services, holder.userId, gone.id);
    await services.db.pool.query("DELETE FROM listings WHERE id = $1", [gone.id]);
    for (const [path, other] of [
      [`/v1/forms/${id}`, `/v1/forms/${MISSING}`],
      [`/v1/listings/${gone.id}`, `/v1/listings/${MISSING}`],
    ] as const) {
      expect(comparable(await send({ path }))).toEqual(comparable(await send({ path: other })));
    }
  });
});

test("the message of a 404 says whether the form, the listing or the path was not found", async () => {
  const noForm = "There is no such form, or you have no access to it: check its id.";
  const noListing = "There is no such listing, or you have no access to it: check its id.";
  const noPath = "Unknown path, or an id in it is not a UUID: see /openapi.json.";
  const asked: [string, HttpRequest][] = [
    [noForm, { path: `/v1/forms/${MISSING}` }],
    [noForm, { method: "PUT", path: `/v1/forms/${MISSING}`, body: uniqueStay(listing.id) }],
    [noForm, { method: "PUT", path: `/v1/forms/${MISSING}`, body: uniqueStay(MISSING) }],
    [noListing, { method: "PUT", path: `/v1/forms/${form}`, body: uniqueStay(MISSING) }],
    [noListing, { method: "POST", path: "/v1/forms", body: uniqueStay(MISSING) }],
    [noListing, { path: `/v1/listings/${MISSING}` }],
    [noPath, { path: "/v1/forms/none" }],
    [noPath, { path: "/v1/v1/forms" }],
    [noPath, { path: "/forms" }],
  ];
  for (const [message, sent] of asked) {
    expect([sent.path, (await send(sent)).json]).toEqual([sent.path, expect.objectContaining({ message })]);
  }
});

describe("memberships", () => {
  test("a removed or lowered role takes effect at the next request on every process", async () => {
    const other = await gateway.addKeyHolder();
    const statuses = async () => {
      const all: number[] = [];
      for (const process of [gateway, second]) {
        const sendRequest = (sent: Omit<HttpRequest, "key">) => process.request({ ...sent, key: other.key });
        all.push((await sendRequest({ path: `/v1/forms/${form}` })).status);
        all.push((await sendRequest({ path: `/v1/listings/${listing.id}` })).status);
        all.push(
          (await sendRequest({ method: "PUT", path: `/v1/forms/${form}`, body: uniqueStay(listing.id) }))
            .status,
        );
        all.push(
          (await sendRequest({ method: "POST", path: "/v1/forms", body: uniqueStay(listing.id) })).status,
        );
      }
      return all;
    };
    const none = Array(8).fill(404);
    const whole = [200, 200, 200, 201, 200, 200, 200, 201];
    expect(await statuses()).toEqual(none);
    for (const [role, expected] of [
      ["WRITER", whole],
      ["READER", none],
      ["OWNER", whole],
      ["NONE", none],
    ] as const) {
      await setRole(services, listing.id, other.userId, role);
      expect(await statuses(), role).toEqual(expected);
    }
  });
});

test("a revoked key gets 401 from every process within 1 s, even if both have cached it", async () => {
  const { id, key } = await gateway.issueKey(holder.userId);
  const sendToAll = () =>
    Promise.all([gateway, second].map((process) => process.request({ path: "/v1/listings", key })));
  for (const { status } of await sendToAll()) expect(status).toBe(200);
  await asOperator(services).keys.revoke({ id });
  const revokedAt = performance.now();
  for (let isRejected = false; !isRejected; ) {
    const sentAt = performance.now();
    isRejected = (await sendToAll()).every(({ status }) => status === 401);
    if (!isRejected) expect(sentAt - revokedAt, "milliseconds since the revocation").toBeLessThan(1000);
  }
  for (const response of await sendToAll()) {
    expect([response.status, errorCodeOf(response)]).toEqual([401, "UNAUTHENTICATED"]);
  }
});
