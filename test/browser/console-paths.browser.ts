import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import { TOKEN } from "../internal/internal-gateway.js";
import { makeForm, makeKey, makeListing, makeUser } from "../support/factories.js";
import {
  button,
  fillIn,
  guestAddress,
  NAME,
  section,
  settle,
  startConsoleWithListing,
  waitForNotice,
} from "./console-page.js";

const { url, services, operator, visit, owner, listing } = await startConsoleWithListing();
const guestEmail = guestAddress();
// In the listing's time zone, July begins in these 90 minutes.
const form = await makeForm(services, owner.id, listing.id, {
  checkInDate: "2027-06-30T22:30:00Z",
  checkOutDate: "2027-07-08T10:00:00Z",
  guestEmail,
});
const TITLE = "Boat house, July 1 – 8, 2027";
const { publicId } = await operator.forms.getAny({ id: form.id });
const key = await makeKey(services, owner.id, { label: "channel manager" });
const endpoint = await operator.webhooks.create({ url: "https://hooks.example.com/" });

/** Whatever an id or key may be of is asked for. */
const NOT_FOUND = { expected: /status of 40[014]/ };

const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1, exact: true });
const find = async (page: Page, text: string) => {
  await page.getByRole("searchbox", { name: /^Find/ }).fill(text);
  await page.keyboard.press("Enter");
};

it.each([
  ["a form’s id", form.id.toUpperCase(), TITLE],
  ["a public id", publicId ?? "", TITLE],
  ["a guest’s link", ` https://app.example.com/register/${publicId}?from=mail `, TITLE],
  ["an email address", owner.email, owner.email],
  ["a guest’s email address", guestEmail.toUpperCase(), TITLE],
  ["a part of a title", "boat", "Boat house"],
  ["a listing’s id", listing.id, "Boat house"],
  ["an endpoint’s id", endpoint.id, `Deliveries to endpoint ${shortId(endpoint.id)}`],
  ["the first characters of a key", key.prefix, owner.email],
  ["a whole key", key.key, owner.email],
])("Find opens the page of %s", async (_, text, title) => {
  const addresses: string[] = [];
  await visit(
    "/console",
    async (page) => {
      page.on("request", (request) => addresses.push(request.url()));
      page.on("framenavigated", (frame) => addresses.push(frame.url()));
      await find(page, text);
      await page.getByRole("heading", { name: title, exact: true }).waitFor();
      await settle(page);
      if (text.startsWith("grf_")) await page.getByRole("row", { name: key.prefix }).first().waitFor();
      addresses.push(page.url());
      // Back leads to where Find was used, not to a page that leads forward again.
      await page.goBack();
      await heading(page, "Overview").waitFor();
    },
    NOT_FOUND,
  );
  for (const typed of [key.prefix, "olga", "GUEST", "boat", "register", publicId, "q="])
    expect(addresses.join("\n")).not.toContain(typed);
});

it("Find looks a guest’s address up once, however long the result is shown", async () => {
  const lookUps = async () =>
    (await operator.audit.trail({ subjectId: form.id })).filter(({ action }) => action === "person.looked_up").length;
  // So that the page stays.
  await makeForm(services, owner.id, listing.id, { guestEmail });
  const before = await lookUps();
  await visit("/console", async (page) => {
    await find(page, guestEmail);
    await page.getByText("2 shown").waitFor();
    // The reader comes back to it later.
    await page.clock.setFixedTime(Date.now() + 120_000);
    await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))");
    await settle(page);
    expect(await lookUps()).toBe(before + 1);
  });
});

it("Find says if it finds nothing, lists several, and forgets what was typed at a reload", async () => {
  await visit(
    "/console",
    async (page) => {
      await find(page, "unicorn");
      const nothing = page.getByRole("status").getByText("Nothing was found");
      await nothing.waitFor();
      await find(page, "o");
      await page.getByRole("status").getByText("2 shown").waitFor();
      await page.getByRole("link", { name: "Boat house" }).waitFor();
      await page.getByRole("link", { name: "Olga Owner" }).waitFor();
      await find(page, "grf_000000000");
      await nothing.waitFor();
      expect(page.url()).toBe(`${url}/console/find`);
      await page.reload();
      await heading(page, "Find").waitFor();
      await settle(page);
      expect(await nothing.count()).toBe(0);
      expect(await page.getByRole("searchbox", { name: /^Find/ }).inputValue()).toBe("");
    },
    NOT_FOUND,
  );
});

it("a form is named by its listing and its days there, in the page’s heading and in its title, with the id to copy", async () => {
  await visit(`/console/forms/${form.id}`, async (page) => {
    await heading(page, TITLE).waitFor();
    await expect.poll(async () => (await page.title()).replaceAll(/\s/g, " ")).toBe(`${TITLE} · Guest forms console`);
    await page.getByText(form.id, { exact: true }).waitFor();
  });
});

it("a change is traced from the timeline of a form to its request and its webhook deliveries, and back", async () => {
  const { id } = await makeForm(services, owner.id, listing.id);
  await visit(
    `/console/forms/${id}`,
    async (page) => {
      await button(page, "Set COMPLETED").click();
      const change = page.getByRole("row", { name: /SENT → COMPLETED/ });
      await change.getByText(NAME).waitFor();
      await change.getByRole("link").last().click();
      await heading(page, "Trace").waitFor();
      await page
        .getByRole("table", { name: /^Changes/ })
        .getByText("SENT → COMPLETED")
        .waitFor();
      await section(page, /^Webhook deliveries/)
        .getByText("form.status_changed")
        .waitFor();
      const address = page.url();
      await fillIn(page.getByRole("search").last(), { "Correlation id": "no-id" });
      await button(page, "Show").click();
      await page
        .getByRole("alert")
        .getByText(/correlationId: must/)
        .waitFor();
      await page.goBack();
      await page.getByText("SENT → COMPLETED").waitFor();
      expect(page.url()).toBe(address);
      await page.getByRole("link", { name: `form ${shortId(id)}` }).click();
      await page.getByRole("heading", { name: /^Boat house, January/, level: 1 }).waitFor();
      expect(page.url()).toBe(`${url}/console/forms/${id}`);
    },
    NOT_FOUND,
  );
});

it("filters and the page of a list are in the address: Back undoes them, and a copy of it opens the same", async () => {
  const user = await makeUser(services);
  const busy = await makeListing(services, user.id, { title: "Busy house" });
  for (let stay = 0; stay < 52; stay++) await makeForm(services, user.id, busy.id);
  await visit(`/console/listings/${busy.id}`, async (page) => {
    await page.getByRole("link", { name: "All its forms" }).click();
    const rows = page.getByRole("table").getByRole("row");
    await expect.poll(() => rows.count()).toBe(51);
    await page.getByRole("link", { name: "Next page" }).click();
    await expect.poll(() => rows.count()).toBe(3);
    const shown = await rows.allTextContents();
    await visit(page.url().slice(url.length), async (copy) => {
      const copied = copy.getByRole("table").getByRole("row");
      await expect.poll(() => copied.count()).toBe(3);
      expect((await copied.allTextContents()).map((text) => text.slice(0, 20))).toEqual(
        shown.map((text) => text.slice(0, 20)),
      );
    });
    const filters = page.getByRole("search").last();
    const status = filters.getByLabel("Status");
    await status.selectOption("ACCEPTED");
    expect(page.url()).not.toContain("ACCEPTED");
    await button(filters, "Show").click();
    await page.getByText(/^No form matches/).waitFor();
    expect(page.url()).toMatch(/status=ACCEPTED/);
    expect(page.url()).not.toContain("cursor");
    await page.goBack();
    await expect.poll(() => rows.count()).toBe(3);
    expect(await status.inputValue()).toBe("");
    await page.goBack();
    await expect.poll(() => rows.count()).toBe(51);
  });
});

it("forms are found by the day of their check-in, by their listing and by a user, and all of these together", async () => {
  const user = await makeUser(services);
  const house = await makeListing(services, user.id, { title: "Day house", timezone: "Europe/Berlin" });
  const checkOutDate = "2055-06-09T10:00:00Z";
  const [onDay] = await Promise.all(
    ["2055-06-04T22:30:00Z", "2055-06-05T22:30:00Z"].map((checkInDate) =>
      makeForm(services, user.id, house.id, { checkInDate, checkOutDate }),
    ),
  );
  await visit("/console/forms", async (page) => {
    const filters = page.getByRole("search").last();
    await filters.getByLabel("Check-in on").fill("2055-06-05");
    await button(filters, "Show").click();
    const links = page.getByRole("table").getByRole("link", { name: /^[\da-f]{8}-[\da-f-]{9}$/ });
    await expect.poll(() => links.allTextContents()).toEqual([shortId(onDay?.id ?? "")]);
    await filters.getByLabel(/^Listing/).fill(house.id);
    await filters.getByLabel(/^User/).fill(user.email);
    await button(filters, "Show").click();
    await page.waitForURL(`**/console/forms?checkInDay=2055-06-05&listingId=${house.id}&userId=${user.id}`);
    await expect.poll(() => links.allTextContents()).toEqual([shortId(onDay?.id ?? "")]);
  });
});

it("by keyboard alone an operator signs in, finds a form, sets its status, and always sees where the focus is", async () => {
  const { id } = await makeForm(services, owner.id, listing.id, { guestEmail: guestAddress() });
  await visit(
    "/console",
    async (page) => {
      const focused = () => page.evaluate<string>("document.activeElement.textContent || document.activeElement.name");
      // The parts of a date field, which get the focus too, are marked by the browser.
      const isFocusSeen = () =>
        page.evaluate<boolean>(
          "document.activeElement.matches('body, [type=date]') || getComputedStyle(document.activeElement).outlineStyle !== 'none'",
        );
      const press = async (...keys: string[]) => {
        for (const name of keys) await page.keyboard.press(name);
      };
      /** Moves the focus forward to what has this text. */
      const tabTo = async (text: string) => {
        for (let stop = 0; stop < 60; stop++) {
          await press("Tab");
          const reached = await focused();
          expect(await isFocusSeen(), reached).toBe(true);
          if (reached === text) return;
        }
        expect.fail(`no Tab reaches ${text}`);
      };
      await page.getByLabel("Your name").waitFor();
      await expect.poll(focused).toBe("token");
      await press("Escape", "Escape", "Escape");
      expect(await page.getByRole("dialog").isVisible()).toBe(true);
      await page.keyboard.type(TOKEN);
      await tabTo("name");
      await page.keyboard.type(NAME);
      await press("Enter");
      await button(page, "Sign out").waitFor();
      await tabTo("Skip to the content");
      await press("Enter");
      expect(await page.evaluate("document.activeElement.id")).toBe("main");
      await page.reload();
      await heading(page, "Overview").waitFor();
      await tabTo("Forms");
      await press("Enter");
      await expect.poll(() => page.evaluate("document.activeElement.outerHTML")).toMatch(/^<h1.*>Forms</);
      await page.getByRole("table").waitFor();
      await tabTo(shortId(id));
      await press("Enter");
      await expect.poll(focused).toMatch(/^Boat house, January/);
      await button(page, "Send the invitation …").waitFor();
      await tabTo("Send the invitation …");
      await press("Enter");
      const dialog = page.getByRole("dialog", { name: "Send the invitation" });
      await dialog.waitFor();
      await expect.poll(focused).toBe("Send it now");
      for (let stop = 0; stop < 12; stop++) {
        await press("Tab");
        const inside = "document.activeElement === document.body || !!document.activeElement.closest('dialog')";
        expect(await page.evaluate(inside)).toBe(true);
      }
      await press("Escape");
      await dialog.waitFor({ state: "detached" });
      expect(await focused()).toBe("Send the invitation …");
      await tabTo("Set COMPLETED");
      await press("Space");
      await waitForNotice(page, "The form is COMPLETED now.");
      await expect.poll(focused).toBe("Undo: set SENT");
      await press("Enter");
      await waitForNotice(page, "The form is SENT now.");
    },
    { isSignedIn: false },
  );
  expect((await operator.forms.getAny({ id })).status).toBe("SENT");
});
