import type { Locator, Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import { startInternalGateway } from "../internal/internal-gateway.js";
import { makeForm } from "../support/factories.js";
import { restartablePort } from "../support/network.js";
import {
  button,
  failed,
  fillIn,
  NAME,
  openDialog,
  settle,
  startConsoleWithListing,
  submit,
  waitForNotice,
} from "./console-page.js";

const { services, operator, visit, owner, listing } = await startConsoleWithListing();

const addForm = () => makeForm(services, owner.id, listing.id);
const statusOf = async (id: string) => (await operator.forms.getAny({ id })).status;
/** Holds back what the page reads about the form, as a slow network does. Returns a function that lets it through. */
async function holdReads(page: Page): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/console/trpc/forms.getAny", async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

it("of two operators on one form the slower is told its status now, and overwrites nothing", async () => {
  const { id } = await addForm();
  await visit(
    `/console/forms/${id}`,
    async (first) => {
      await visit(
        `/console/forms/${id}`,
        async (second) => {
          await button(second, "Set COMPLETED").waitFor();
          const releaseSecond = await holdReads(second);
          await button(first, "Set COMPLETED").click();
          await waitForNotice(first, "The form is COMPLETED now.");
          await button(first, "Set REJECTED").waitFor();
          const releaseFirst = await holdReads(first);
          await button(second, "Set COMPLETED").click();
          await second
            .getByRole("alert")
            .getByText(/“Set COMPLETED” failed: from: the form is COMPLETED/)
            .waitFor();
          releaseSecond();
          await button(second, "Set ACCEPTED").click();
          await waitForNotice(second, "The form is ACCEPTED now.");
          await button(first, "Set REJECTED").click();
          await first
            .getByRole("alert")
            .getByText(/“Set REJECTED” failed: from: the form is ACCEPTED/)
            .waitFor();
          expect(await statusOf(id)).toBe("ACCEPTED");
          releaseFirst();
          await button(first, "Set VALIDATED").waitFor();
          // What one operator does is on the other's page within seconds.
          await button(second, "Set VALIDATED").click();
          await waitForNotice(second, "The form is VALIDATED now.");
          await button(first, "Set CHECKED OUT").waitFor();
        },
        { name: "Grace", ...failed(400) },
      );
    },
    failed(400),
  );
  expect(await statusOf(id)).toBe("VALIDATED");
  const trail = await operator.audit.trail({ subjectId: id });
  expect(trail.map(({ actorName }) => actorName)).toEqual(["Grace", "Grace", NAME, null]);
});

it("what the browser can check is not sent: required fields and email addresses", async () => {
  await visit(`/console/listings/${listing.id}`, async (page) => {
    const sent: string[] = [];
    page.on("request", (request) => {
      if (/\.(update|create|set)$/.test(request.url())) sent.push(request.url());
    });
    const expectRefusal = async (dialog: Locator, name: string, label: string) => {
      await button(dialog, name).click();
      const field = dialog.getByLabel(new RegExp(`^${label}`));
      expect(await dialog.locator(":invalid:focus").getAttribute("id")).toBe(await field.getAttribute("id"));
    };
    const edit = await openDialog(page, "Edit", /^Edit/);
    await fillIn(edit, { Title: "" });
    await expectRefusal(edit, "Save", "Title");
    await button(edit, "Close").click();
    await expectRefusal(await openDialog(page, "Set a member’s role"), "Set the role", "User");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Users", exact: true }).click();
    const create = await openDialog(page, "New user");
    await fillIn(create, { "Email address": "no address" });
    await expectRefusal(create, "Create", "Email address");
    await settle(page);
    expect(sent).toEqual([]);
  });
});

it("an owner, member or filter that does not exist is an issue at its field", async () => {
  await visit(
    "/console/listings",
    async (page) => {
      const filters = page.getByRole("search").last();
      await fillIn(filters, { "User’s email": "nobody@people.test" });
      await button(filters, "Show").click();
      await filters
        .getByText("User’s email address or id: no user has this email address, external id or id")
        .waitFor();
      expect(page.url()).not.toContain("nobody");
      await page.getByRole("link", { name: "Boat house" }).click();
      const dialog = await openDialog(page, "Set a member’s role");
      await fillIn(dialog, { User: "nobody@people.test" });
      await button(dialog, "Set the role").click();
      await dialog.getByText("User: no user has this email address, external id or id").waitFor();
      expect(await dialog.getByLabel(/^User/).getAttribute("aria-invalid")).toBe("true");
      expect(await dialog.getByLabel(/^User/).inputValue()).toBe("nobody@people.test");
    },
    failed(404),
  );
});

it("fields that the service rejects are marked, and what was typed stays; two operators’ edits of other fields are both kept", async () => {
  await visit(
    `/console/listings/${listing.id}`,
    async (page) => {
      const edit = await openDialog(page, "Edit", /^Edit/);
      await fillIn(edit, { City: "Kiel", "Time zone": "Europe/Nowhere", "Maximum guests": "0" });
      await operator.listings.update({ id: listing.id, address: "Quay 9" });
      await button(edit, "Save").click();
      await edit.getByText(/^Time zone: must/).waitFor();
      await edit.getByText(/^Maximum guests: must/).waitFor();
      const zone = edit.getByLabel(/^Time zone/);
      await expect.poll(() => page.evaluate("document.activeElement.id")).toBe(await zone.getAttribute("id"));
      expect(await zone.getAttribute("aria-invalid")).toBe("true");
      expect(await edit.getByLabel(/^City/).inputValue()).toBe("Kiel");
      await fillIn(edit, { "Time zone": "Europe/Berlin", "Maximum guests": "3" });
      await submit(edit, "Save");
      await waitForNotice(page, "Saved.");
    },
    failed(400),
  );
  const { city, address, maxPeopleInListing } = await operator.listings.getAny({ id: listing.id });
  expect([city, address, maxPeopleInListing]).toEqual(["Kiel", "Quay 9", 3]);
});

it("while the service restarts, a page says so, keeps what was typed, and recovers without a reload", async () => {
  const INTERNAL_PORT = await restartablePort();
  const settings = { INTERNAL_PORT, DATABASE_URL: String(services.db.url) };
  const before = await startInternalGateway(settings);
  await visit(
    `/console/listings/${listing.id}`,
    async (page) => {
      const edit = await openDialog(page, "Edit", /^Edit/);
      await fillIn(edit, { District: "Old town" });
      await before.gateway.stop();
      await button(edit, "Save").click();
      await edit.getByText("The service does not answer. It may be restarting.").waitFor();
      const { gateway } = await startInternalGateway(settings);
      await submit(edit, "Save");
      await waitForNotice(page, "Saved.");
      expect(await operator.listings.getAny({ id: listing.id })).toMatchObject({ district: "Old town" });
      await gateway.stop();
      await page.getByRole("link", { name: "Users", exact: true }).click();
      await page.getByRole("alert").getByText("The service does not answer. It may be restarting.").waitFor();
      await startInternalGateway(settings);
      await page.getByRole("link", { name: owner.email }).waitFor();
    },
    { at: before.url, ...failed() },
  );
});

it("a list that cannot be read shows why with the correlation id to copy, and is read again on request", async () => {
  await visit(
    "/console/users",
    async (page) => {
      await page.getByRole("link", { name: owner.email }).waitFor();
      await services.db.pool.query("ALTER TABLE listings RENAME TO listings_gone");
      onTestFinished(() =>
        services.db.pool.query("ALTER TABLE IF EXISTS listings_gone RENAME TO listings").then(() => {}),
      );
      const ids: unknown[] = [];
      page.on("response", (response) => ids.push(response.headers()["x-correlation-id"]));
      await page.getByRole("link", { name: "Listings", exact: true }).click();
      const alert = page.getByRole("alert");
      await alert.waitFor();
      await alert.getByRole("button", { name: "Copy" }).click();
      expect(ids).toContain(await page.evaluate("navigator.clipboard.readText()"));
      await services.db.pool.query("ALTER TABLE listings_gone RENAME TO listings");
      await button(alert, "Try again").click();
      await page.getByRole("link", { name: "Boat house" }).waitFor();
    },
    { permissions: ["clipboard-read", "clipboard-write"], ...failed(500) },
  );
});

it("on a slow network a page says that it loads, and a double click sends once", async () => {
  const { id } = await addForm();
  await visit("/console/forms", async (page) => {
    const held: (() => void)[] = [];
    const sent: string[] = [];
    await page.route("**/console/trpc/**", async (route) => {
      sent.push(route.request().url().split("/").at(-1) ?? "");
      await new Promise<void>((resolve) => held.push(resolve));
      await route.continue();
    });
    await page.getByRole("link", { name: shortId(id) }).click();
    await page.getByRole("status").getByText("Loading …").waitFor();
    await expect.poll(() => held.length).toBeGreaterThan(0);
    const release = () => {
      for (const next of held.splice(0)) next();
    };
    await expect
      .poll(() => {
        release();
        return button(page, "Set COMPLETED").count();
      })
      .toBe(1);
    await button(page, "Set COMPLETED").dblclick();
    await expect.poll(() => button(page, "Set COMPLETED").isDisabled()).toBe(true);
    await expect
      .poll(() => {
        release();
        return page.getByText("The form is COMPLETED now.").count();
      })
      .toBe(1);
    expect(sent.filter((procedure) => procedure === "forms.setStatus")).toHaveLength(1);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    release();
  });
  expect(await statusOf(id)).toBe("COMPLETED");
});
