import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { spawnNode } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { fixedStay } from "../support/stays.js";
import { createInternalClient, GUEST_TOKEN, startInternalGateway, TOKEN } from "./internal-gateway.js";

const PRIVACY_URL = "https://stays.example.com/privacy?a=1&b=2";

const { url, gateway } = await startInternalGateway({ GUEST_TOKEN, EMAIL_PRIVACY_URL: PRIVACY_URL });
gateway.forbidInLog(GUEST_TOKEN);
const operator = createInternalClient(url);
const services = await gateway.services();
const owner = await makeListingOwner(services);
const listing = await owner.addListing({
  title: "Loft & <Garden>",
  timezone: "Pacific/Auckland",
  maxVehicles: 2,
  allowPets: true,
});

/** Starts the program of the guide in a folder that has only tRPC's client. Returns the address of its pages. */
async function startPage(): Promise<string> {
  const guide = await readFile(join(packageRoot(), "gateway/docs/guest-page.md"), "utf8");
  const [, program = ""] = /```js\n([\s\S]*?)```/.exec(guide) ?? [];
  const folder = await makeTempFolder("guest-page");
  await mkdir(join(folder, "node_modules"));
  await symlink(join(packageRoot(), "node_modules/@trpc"), join(folder, "node_modules/@trpc"));
  await writeFile(join(folder, "guest-page.mjs"), program);
  const env = { INTERNAL_URL: url, GUEST_TOKEN, PORT: "0" };
  const [, address = ""] = await spawnNode(["guest-page.mjs"], { env, cwd: folder }).waitForLine(/^(http:.*)$/);
  return address;
}

const address = await startPage();
let guests = 2;
const create = async (listingId = listing.id) =>
  (await owner.create(fixedStay(listingId, { guestEmail: "guest@example.com", numberOfGuests: ++guests }))).form;
const read = async (response: Response | Promise<Response>) => {
  const { status, headers } = await response;
  return { status, headers, html: await (await response).text() };
};
const readForm = ({ id }: { id: string }) => owner.forms.get({ id });
/** Opens the link as a mail program may have changed it. */
const open = (publicId: string | null) => read(fetch(`${address}${publicId}?utm_source=mail`));
const submit = (publicId: string | null, answers: Record<string, string>) =>
  read(fetch(address + publicId, { method: "POST", body: new URLSearchParams(answers) }));

describe('the page of the guide "Build the guest\'s page"', () => {
  test("shows the stay in the listing's time zone and asks what the listing's rules allow, without the form's id", async () => {
    const form = await create();
    const { status, headers, html } = await open(form.publicId);
    expect(status).toBe(200);
    expect(html).toContain("<h2>Loft &#38; &#60;Garden&#62;</h2>");
    // 13:00 and 09:00 UTC. Auckland is 12 hours ahead in July.
    expect(html).toMatch(/Check-in: Friday, July 2, 2055 at 1:00\sAM<br>Check-out: Thursday, July 8, 2055 at 9:00\sPM/);
    expect(html).toContain("Times are in Pacific/Auckland.");
    expect(html).toContain(`Guests: ${form.numberOfGuests}`);
    expect(html).toContain('name="numberOfVehicles" value="" min="0" max="2"');
    expect(html).toContain('name="numberOfPets"');
    expect(html + JSON.stringify([...headers])).not.toMatch(new RegExp(`${form.id}|${TOKEN}|${GUEST_TOKEN}|guest@`));
    expect(html).toContain("<a href='https://stays.example.com/privacy?a=1&#38;b=2' rel='noreferrer'>Privacy</a>");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    const bare = await open((await create((await owner.addListing({ maxVehicles: 0, allowPets: false })).id)).publicId);
    expect(bare.html).not.toContain("<input");
  });

  test("speaks the listing's language if it has its words, and English otherwise", async () => {
    for (const [language, lang, words] of [
      ["de", "de", /Anreise: Freitag, 2\. Juli 2055 um 01:00.*Gäste: \d+/s],
      ["de-AT", "de", /Abreise: Donnerstag, 8\. Juli 2055/],
      ["fr", "en", /Check-in: vendredi 2 juillet 2055/],
    ] as const) {
      const { id } = await owner.addListing({ timezone: "Pacific/Auckland" });
      await services.db.pool.query("UPDATE listings SET language = $2 WHERE id = $1", [id, language]);
      const { html } = await open((await create(id)).publicId);
      expect(html).toContain(`<html lang="${lang}">`);
      expect(html).toMatch(words);
    }
  });

  test("completes the form with the guest's answers, and lets the guest correct them until the form is past COMPLETED", async () => {
    const form = await create();
    const done = await submit(form.publicId, { numberOfVehicles: "1", numberOfPets: "" });
    expect(done.html).toContain("<h1>Thank you</h1>");
    const updatedAt = expect.any(String);
    const completed = { ...form, status: "COMPLETED", numberOfVehicles: 1, numberOfPets: null, updatedAt };
    expect(await readForm(form)).toEqual(completed);
    expect((await open(form.publicId)).html).toContain("<button>Correct your answers</button>");
    await submit(form.publicId, { numberOfVehicles: "2", numberOfPets: "2" });
    const corrected = { ...completed, numberOfVehicles: 2, numberOfPets: 2 };
    expect(await readForm(form)).toEqual(corrected);
    await operator.forms.setStatus.mutate({ id: form.id, status: "ACCEPTED" });
    expect((await submit(form.publicId, { numberOfVehicles: "0" })).html).toContain("<h1>Thank you</h1>");
    expect(await readForm(form)).toEqual({ ...corrected, status: "ACCEPTED" });
  });

  test("of a cancelled form says so, and changes nothing, also if the form is cancelled while the guest answers", async () => {
    const form = await create();
    const cancelling = await holdLock(services, "UPDATE forms SET status = 'CANCELLED' WHERE id = $1", [form.id]);
    const submitted = submit(form.publicId, { numberOfPets: "1" });
    await waitForBlocked(services, 1);
    await cancelling.commit();
    for (const { html } of [await submitted, await open(form.publicId), await submit(form.publicId, {})])
      expect(html).toContain("<h1>This stay was cancelled</h1>");
    expect(await readForm(form)).toEqual({ ...form, status: "CANCELLED" });
  });

  test("asks for pets unless the listing forbids them, and keeps what the host has set and the guest was not asked", async () => {
    const unsaid = await create((await owner.addListing({ maxVehicles: 0, allowPets: null })).id);
    expect((await open(unsaid.publicId)).html).toContain('name="numberOfPets"');
    await operator.forms.setParty.mutate({ id: unsaid.id, numberOfVehicles: 0, numberOfPets: 1 });
    await submit(unsaid.publicId, { numberOfPets: "2" });
    const updatedAt = expect.any(String);
    const answered = { ...unsaid, status: "COMPLETED", numberOfVehicles: 0, numberOfPets: 2, updatedAt };
    expect(await readForm(unsaid)).toEqual(answered);
    const bare = await create((await owner.addListing({ maxVehicles: 0, allowPets: false })).id);
    expect((await submit(bare.publicId, {})).html).toContain("<h1>Thank you</h1>");
  });

  test("does not complete a form that the host rejects while the guest answers", async () => {
    const form = await create();
    const rejection = await holdLock(services, "UPDATE forms SET status = 'REJECTED' WHERE id = $1", [form.id]);
    const submitted = submit(form.publicId, { numberOfPets: "1" });
    await waitForBlocked(services, 1);
    await rejection.commit();
    expect((await submitted).html).toContain("<h1>This registration is closed</h1>");
    expect(await readForm(form)).toMatchObject({ status: "REJECTED" });
  });

  test("shows why an answer is rejected, and changes nothing, nor another form", async () => {
    const [form, other] = [await create(), await create()];
    const { status, html } = await submit(form.publicId, { numberOfVehicles: "3", id: other.id });
    expect(status).toBe(400);
    expect(html).toContain("Vehicles: Please enter a whole number within what the listing allows.");
    expect(html, "what the guest has typed").toContain('name="numberOfVehicles" value="3"');
    for (const numberOfPets of ["abc", "1.5", "-1", "9".repeat(400)])
      expect((await submit(form.publicId, { numberOfPets })).html).toContain("Pets: Please enter a whole number");
    const hostile = await submit(form.publicId, { numberOfPets: '"><script>' });
    expect(hostile.html).toContain('value="&#34;&#62;&#60;script&#62;"');
    for (const unchanged of [form, other]) expect(await readForm(unchanged)).toEqual(unchanged);
  });

  test("says that the registration is closed if the stay is over", async () => {
    const over = { checkInDate: "2020-07-01T15:00:00Z", checkOutDate: "2020-07-08T10:00:00Z" };
    const { form } = await owner.create(fixedStay(listing.id, over));
    for (const { html } of [await open(form.publicId), await submit(form.publicId, {})])
      expect(html).toContain("<h1>This registration is closed</h1>");
    expect(await readForm(form)).toEqual(form);
  });

  test("says that the registration is closed if the host has ended it", async () => {
    const form = await create();
    for (const [status, title] of [
      ["REJECTED", "This registration is closed"],
      ["ACCEPTED", "Thank you"],
    ]) {
      await operator.forms.setStatus.mutate({ id: form.id, status: String(status) });
      expect((await open(form.publicId)).html).toContain(`<h1>${title}</h1>`);
    }
  });

  test("is 404 for a link that is unknown or malformed", async () => {
    const { id } = await create();
    for (const unknown of ["x".repeat(21), id, "", "..%2f"]) expect((await open(unknown)).status).toBe(404);
  });
});
