import { describe, expect, test } from "vitest";
import { asOperator, makeForm, makeListing, setRole } from "../support/factories.js";
import { type HttpRequest, startTestGateway } from "../support/gateway.js";
import type { HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { startHolderGateway } from "./holder-gateway.js";

const { gateway, services, holder, listingId, send } = await startHolderGateway();
const MISSING = "6f6f6f6f-6666-4666-8666-6f6f6f6f6f6f";

const form = (await makeForm(services, holder.userId, listingId)).id;
const neighbor = await gateway.addKeyHolder();
async function makeListingWithForm() {
  const { id } = await makeListing(services, neighbor.userId);
  return { listing: id, form: (await makeForm(services, neighbor.userId, id)).id };
}
const otherTenants = await makeListingWithForm();
const readerOnly = await makeListingWithForm();
await setRole(services, readerOnly.listing, holder.userId, "READER");

const put = (formId: string, body: unknown): HttpRequest => ({ method: "PUT", path: `/v1/forms/${formId}`, body });
const post = (body: unknown): HttpRequest => ({ method: "POST", path: "/v1/forms", body });

/** The parts of a response that could reveal whether the id exists. */
function comparable({ status, headers, text }: HttpResponse) {
  const { date: _date, ratelimit: _counters, "x-correlation-id": id = "", ...more } = headers;
  return { status, headers: more, text: text.replaceAll(id, "") };
}

describe("a form or listing out of scope gets the same response as one that does not exist", () => {
  type Ids = typeof otherTenants;
  test.each<[string, (ids: Ids) => HttpRequest]>([
    ["fetching a form", (ids) => ({ path: `/v1/forms/${ids.form}` })],
    ["HEAD of a form", (ids) => ({ method: "HEAD", path: `/v1/forms/${ids.form}` })],
    ["OPTIONS of a form", (ids) => ({ method: "OPTIONS", path: `/v1/forms/${ids.form}` })],
    ["another method on a form", (ids) => ({ method: "DELETE", path: `/v1/forms/${ids.form}` })],
    ["fetching a listing", (ids) => ({ path: `/v1/listings/${ids.listing}` })],
    ["listing forms by a listing", (ids) => ({ path: `/v1/forms?listingId=${ids.listing}` })],
    ["creating on a listing", (ids) => post(uniqueStay(ids.listing, { guestEmail: "ana@example.com" }))],
    ["updating a form", (ids) => put(ids.form, uniqueStay(listingId))],
    ["updating with a faulty body", (ids) => put(ids.form, uniqueStay(listingId, { numberOfGuests: 0 }))],
    ["moving a form to a listing", (ids) => put(form, uniqueStay(ids.listing))],
    ["moving a form from one to another", (ids) => put(ids.form, uniqueStay(ids.listing))],
  ])("%s", async (_name, request) => {
    const missing = comparable(await send(request({ listing: MISSING, form: MISSING })));
    expect(comparable(await send(request(otherTenants)))).toEqual(missing);
    expect(comparable(await send(request(readerOnly)))).toEqual(missing);
  });
});

test("the message of a 404 says whether the form, the listing or the path was not found", async () => {
  for (const [message, sent] of [
    [/^There is no such form/, { path: `/v1/forms/${MISSING}` }],
    [/^There is no such form/, put(MISSING, uniqueStay(MISSING))],
    [/^There is no such listing/, put(form, uniqueStay(MISSING))],
    [/^There is no such listing/, post(uniqueStay(MISSING))],
    [/^There is no such listing/, { path: `/v1/listings/${MISSING}` }],
    [/^Unknown path/, { path: "/v1/forms/none" }],
    [/^Unknown path/, { path: "/forms" }],
  ] as const) {
    const { status, json } = await send(sent);
    expect(status).toBe(404);
    expect(json).toMatchObject({ code: "RESOURCE_NOT_FOUND", message: expect.stringMatching(message) });
  }
});

describe("on every process", async () => {
  const second = await startTestGateway({ DATABASE_URL: gateway.settings.DATABASE_URL ?? "" });
  const sendToBoth = (sent: HttpRequest) =>
    Promise.all([gateway, second].map(async (process) => (await process.request(sent)).status));

  test("a revoked key gets 401 from every process within 1 s, even if both have cached it", async () => {
    const { id, key } = await gateway.issueKey(holder.userId);
    const path = "/v1/listings";
    expect(await sendToBoth({ path, key })).toEqual([200, 200]);
    await asOperator(services).keys.revoke({ id });
    const revokedAt = performance.now();
    for (let isRejected = false; !isRejected; ) {
      const sentAt = performance.now();
      isRejected = (await sendToBoth({ path, key })).every((status) => status === 401);
      if (!isRejected) expect(sentAt - revokedAt, "milliseconds since the revocation").toBeLessThan(1000);
    }
  });

  test("a removed or lowered role takes effect at the next request on every process", async () => {
    const { key, userId } = await gateway.addKeyHolder();
    for (const [role, expected] of [
      ["WRITER", 200],
      ["READER", 404],
      ["OWNER", 200],
      ["NONE", 404],
    ] as const) {
      await setRole(services, listingId, userId, role);
      for (const sent of [{ path: `/v1/forms/${form}` }, put(form, uniqueStay(listingId))])
        expect(await sendToBoth({ ...sent, key }), role).toEqual([expected, expected]);
    }
  });
});
