import { describe, expect, test } from "vitest";
import { PROCEDURES } from "../../gateway/http/procedures.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";
import { Browser } from "./console-client.js";
import { createInternalClient, errorOf, GUEST_TOKEN, startInternalGateway } from "./internal-gateway.js";

const { url, gateway } = await startInternalGateway({ GUEST_TOKEN });
gateway.forbidInLog(GUEST_TOKEN);
const services = await gateway.services();
const owner = await makeListingOwner(services);
const operator = createInternalClient(url);
const Authorization = `Bearer ${GUEST_TOKEN}`;
const page = createInternalClient(url, { headers: { Authorization } });

const THREE = ["forms.getByPublicId", "forms.setPartyByPublicId", "forms.completeByPublicId"];

let guests = 1;
const create = async () => {
  const { form } = await owner.create(fixedStay(owner.listingId, { numberOfGuests: ++guests }));
  return { ...form, publicId: form.publicId ?? "" };
};

describe("GUEST_TOKEN", () => {
  test("reads, answers and completes a form by its public id, which is audited as the guest's", async () => {
    const { id, publicId, ...form } = await create();
    const read = await page.forms.getByPublicId.query({ publicId });
    expect(read).toMatchObject({ form: { id, ...form }, listing: { language: null }, privacyUrl: null });
    expect(await page.forms.setPartyByPublicId.mutate({ publicId, numberOfPets: 1 })).toMatchObject({
      numberOfPets: 1,
    });
    const completed = await page.forms.completeByPublicId.mutate({ publicId });
    expect(completed.status).toBe("COMPLETED");
    expect(await page.forms.completeByPublicId.mutate({ publicId })).toEqual(completed);
    await page.forms.setPartyByPublicId.mutate({ publicId, numberOfPets: null, numberOfVehicles: 2 });
    const trail = await operator.audit.trail.query({ subjectId: id });
    expect(trail.map(({ actor, action }) => [actor, action])).toEqual([
      ["guest", "form.party_set"],
      ["guest", "form.status_set"],
      ["guest", "form.party_set"],
      ["user", "form.created"],
    ]);
  });

  test.each(["ACCEPTED", "REJECTED", "VALIDATED", "INVALIDATED", "CHECKED_OUT", "CANCELLED", "ON_HOLD"])(
    "changes no form that is %s",
    async (status) => {
      const { id, publicId } = await create();
      await operator.forms.setStatus.mutate({ id, status, force: true });
      const field = status === "CANCELLED" ? "cancelled" : "status";
      const rejection = { serviceCode: "VALIDATION_ERROR", errors: [{ field }] };
      expect(await errorOf(page.forms.completeByPublicId.mutate({ publicId }))).toMatchObject(rejection);
      const answer = page.forms.setPartyByPublicId.mutate({ publicId, numberOfPets: 1 });
      expect(await errorOf(answer)).toMatchObject(rejection);
      expect((await page.forms.getByPublicId.query({ publicId })).form.numberOfPets).toBe(null);
    },
  );

  test("finds no form by its id, by the public id of a listing, or by a part of one", async () => {
    const { id, publicId } = await create();
    const { publicId: ofListing } = await operator.listings.getAny.query({ id: owner.listingId });
    for (const unknown of ["", id, ofListing, publicId.slice(1), `${publicId}x`, "%", "_".repeat(21)]) {
      for (const call of [
        () => page.forms.getByPublicId.query({ publicId: unknown }),
        () => page.forms.completeByPublicId.mutate({ publicId: unknown }),
        () => page.forms.setPartyByPublicId.mutate({ publicId: unknown, numberOfPets: 1 }),
      ])
        expect(await errorOf(call())).toMatchObject({ serviceCode: "RESOURCE_NOT_FOUND" });
    }
  });

  test("calls no other procedure, alone or in a batch, and acts as nobody else", async () => {
    const send = (path: string, headers = {}) =>
      fetch(`${url}/trpc/${path}`, {
        method: "POST",
        headers: { Authorization, "Content-Type": "application/json", ...headers },
        body: "{}",
      });
    for (const name of PROCEDURES.filter((one) => !THREE.includes(one))) {
      expect([name, (await send(name)).status]).toEqual([name, 403]);
      // The first of the batch has no input.
      const batch = await send(`${THREE[2]},${name}?batch=1`);
      expect([name, await batch.text()]).toEqual([name, expect.not.stringContaining('"result"')]);
    }
    for (const name of THREE) expect((await send(name, { "X-User-Id": owner.userId })).status).toBe(403);
    for (const path of ["/metrics", "/", "/v1/forms"]) {
      expect([path, (await fetch(url + path, { headers: { Authorization } })).status]).toEqual([path, 401]);
    }
  });

  test("does not sign in to the console", async () => {
    const browser = new Browser(url);
    expect((await browser.signIn({ token: GUEST_TOKEN })).status).toBe(401);
    expect(browser.cookie).toBe("");
    expect((await browser.signIn()).status).toBe(204);
  });
});
