import { beforeAll, describe, expect, test } from "vitest";
import type { Listing } from "../../server/listings/schema.js";
import { asOperator, makeForm, makeListing, setRole } from "../factories.js";
import {
  errorCodeOf,
  type HttpRequest,
  type HttpResponse,
  type KeyHolder,
  startTestGateway,
  uniqueStay,
} from "../gateway-harness.js";

const gateway = await startTestGateway();
/** Another process on the same database. */
const second = await startTestGateway({ DATABASE_URL: String(gateway.settings.DATABASE_URL) });
const services = await gateway.services();
const operator = asOperator(services);
const MISSING = "6f6f6f6f-6666-4666-8666-6f6f6f6f6f6f";

let holder: KeyHolder;
let listing: Listing;
let form: string;
/** Of another holder; on the last, ours is a reader. */
let foreign: { listing: string; form: string };
let read: { listing: string; form: string };

beforeAll(async () => {
  holder = await gateway.addKeyHolder();
  listing = await makeListing(services, holder.userId);
  form = (await makeForm(services, holder.userId, listing.id)).id;
  const neighbor = await gateway.addKeyHolder();
  const theirs = async () => {
    const { id } = await makeListing(services, neighbor.userId);
    return { listing: id, form: (await makeForm(services, neighbor.userId, id)).id };
  };
  foreign = await theirs();
  read = await theirs();
  await setRole(services, read.listing, holder.userId, "READER");
});

const send = (sent: HttpRequest) => gateway.request({ key: holder.key, ...sent });

/** All of an answer that could tell one case from another. */
function visible({ status, headers, text }: HttpResponse) {
  const { date: _date, ratelimit: _counters, "x-correlation-id": id = "", ...more } = headers;
  return { status, headers: more, text: text.replaceAll(id, "") };
}

describe("what is out of scope is told apart from what does not exist by nothing", () => {
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
    const missing = visible(await send(request({ listing: MISSING, form: MISSING })));
    expect(visible(await send(request(foreign)))).toEqual(missing);
    expect(visible(await send(request(read)))).toEqual(missing);
  });

  test("not by the time it takes, as far as can be measured", async () => {
    const times = { missing: [] as number[], foreign: [] as number[] };
    // By turns, so that whatever else the machine does falls on both.
    for (let n = 0; n < 150; n++) {
      for (const [name, id] of [
        ["missing", MISSING],
        ["foreign", foreign.form],
      ] as const) {
        const began = performance.now();
        await send({ path: `/v1/forms/${id}` });
        times[name].push(performance.now() - began);
      }
    }
    const median = (all: number[]) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
    const [missing, other] = [median(times.missing), median(times.foreign)];
    expect(Math.abs(missing - other)).toBeLessThan(Math.max(1, 0.3 * missing));
  });

  test("a form or a listing that is deleted is as one that never was", async () => {
    const gone = await makeListing(services, holder.userId);
    const { id } = await makeForm(services, holder.userId, gone.id);
    await services.db.prisma.listing.delete({ where: { id: gone.id } });
    for (const [path, other] of [
      [`/v1/forms/${id}`, `/v1/forms/${MISSING}`],
      [`/v1/listings/${gone.id}`, `/v1/listings/${MISSING}`],
    ] as const) {
      expect(visible(await send({ path }))).toEqual(visible(await send({ path: other })));
    }
  });
});

test("a 404 names what was asked for: the form, the listing or the path", async () => {
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

describe("a membership", () => {
  test("that is lost or lowered is lost at the next request, on every process", async () => {
    const other = await gateway.addKeyHolder();
    const statuses = async () => {
      const all: number[] = [];
      for (const process of [gateway, second]) {
        const ask = (sent: Omit<HttpRequest, "key">) => process.request({ ...sent, key: other.key });
        all.push((await ask({ path: `/v1/forms/${form}` })).status);
        all.push((await ask({ path: `/v1/listings/${listing.id}` })).status);
        all.push(
          (await ask({ method: "PUT", path: `/v1/forms/${form}`, body: uniqueStay(listing.id) })).status,
        );
        all.push((await ask({ method: "POST", path: "/v1/forms", body: uniqueStay(listing.id) })).status);
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

describe("a key that has ended is refused within a second on every process, however busy it is", () => {
  async function endsWithinASecond(key: string, end: () => Promise<unknown>): Promise<void> {
    const ask = () =>
      Promise.all([gateway, second].map((process) => process.request({ path: "/v1/listings", key })));
    for (const { status } of await ask()) expect(status).toBe(200);
    await end();
    const ended = performance.now();
    for (let refused = false; !refused; ) {
      const sent = performance.now();
      refused = (await ask()).every(({ status }) => status === 401);
      if (!refused) expect(sent - ended, "milliseconds since the end").toBeLessThan(1_000);
    }
    for (const answer of await ask())
      expect([answer.status, errorCodeOf(answer)]).toEqual([401, "UNAUTHENTICATED"]);
  }

  test("revoked", async () => {
    const { id, key } = await gateway.issueKey(holder.userId);
    await endsWithinASecond(key, () => operator.keys.revoke({ id }));
  });

  test("rotated, without a grace period", async () => {
    const { id, key } = await gateway.issueKey(holder.userId);
    await endsWithinASecond(key, async () => {
      gateway.forbidInLog((await operator.keys.rotate({ id, graceSeconds: 0 })).key);
    });
  });

  test("expired", async () => {
    const { id, key } = await gateway.issueKey(holder.userId);
    await endsWithinASecond(key, () =>
      services.db.prisma.apiKey.update({ where: { id }, data: { expiresAt: new Date() } }),
    );
  });

  test("by its own time", async () => {
    const { id, key } = await gateway.issueKey(holder.userId);
    const expiresAt = new Date(Date.now() + 700);
    await services.db.prisma.apiKey.update({ where: { id }, data: { expiresAt } });
    await endsWithinASecond(key, async () => {
      while (Date.now() < expiresAt.getTime()) await gateway.request({ path: "/v1/listings", key });
    });
  });
});

test("the last use of a key is kept, and written at most once a minute", async () => {
  const { id, key } = await gateway.issueKey(holder.userId);
  const lastUsed = async () =>
    (await services.db.prisma.apiKey.findUniqueOrThrow({ where: { id } })).lastUsedAt?.getTime();
  expect(await lastUsed()).toBeUndefined();
  const began = Date.now();
  await gateway.request({ path: "/v1/forms", key });
  await expect.poll(lastUsed).toBeGreaterThanOrEqual(began);
  const first = await lastUsed();
  for (const process of [gateway, second]) await process.request({ path: "/v1/forms", key });
  expect(await lastUsed()).toBe(first);
});
