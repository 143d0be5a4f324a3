import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { shortId } from "../../gateway/console/short-id.js";
import { SendingFailed } from "../../server/outbox/attempt.js";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { makeForm, makeKey } from "../support/factories.js";
import { addDeliveries } from "../support/outbox-backlog.js";
import { emailQueue, setState } from "../support/outbox-queue.js";
import {
  button,
  failed,
  guestAddress,
  openDialog,
  section,
  settle,
  startConsoleWithListing,
  submit,
} from "./console-page.js";

const { services, operator, visit, owner, listing } = await startConsoleWithListing();
const sql = async (text: string, ...values: unknown[]) => (await services.db.pool.query(text, values)).rows;

/** What has the focus: the name of a button, or a text. */
const focused = (page: Page) =>
  page.evaluate<string>(
    "document.activeElement.ariaLabel ?? (document.activeElement === document.body ? 'BODY' : document.activeElement.textContent)",
  );

async function failEmail(): Promise<string> {
  const { id } = await makeForm(services, owner.id, listing.id, { guestEmail: guestAddress() });
  const queue = emailQueue(services, "worker", {
    send: () => Promise.reject(new SendingFailed("552 the mailbox is full", true)),
  });
  for (let row = await queue.claim(); row; row = await queue.claim()) await queue.attempt(row);
  return id;
}

it("after an action whose button is gone, the focus is on the same action of a row near it, then on the list", async () => {
  const forms = [await failEmail(), await failEmail(), await failEmail()];
  const [first, middle, last] = forms.map((id) => `Retry the email about ${shortId(id)}`);
  await visit("/console/emails?state=failed", async (page) => {
    const press = async (name = "") => {
      await button(page, name).focus();
      await page.keyboard.press("Enter");
      await button(page, name).waitFor({ state: "detached" });
    };
    await press(middle);
    await expect.poll(() => focused(page)).toBe(last);
    await press(last);
    await expect.poll(() => focused(page)).toBe(first);
    await press(first);
    await expect.poll(() => focused(page)).toBe("Emails, oldest first");
  });
});

it("after a confirmed action whose button is gone, the focus is near it: of a key, a member and a form", async () => {
  const [one, other] = [await makeKey(services, owner.id), await makeKey(services, owner.id)];
  const { id } = await makeForm(services, owner.id, listing.id);
  await visit(`/console/users/${owner.id}`, async (page) => {
    await submit(await openDialog(page, `Revoke ${one.prefix}`, `Revoke ${one.prefix}…`), "Revoke");
    await button(page, `Revoke ${one.prefix}`).waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe(`Rotate ${other.prefix}`);
    const name = `Remove ${owner.email} from ${listing.title}`;
    await submit(await openDialog(page, name, "Remove"), "Remove");
    await button(page, name).waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Listings of the user");
    await page.goto(new URL(`/console/forms/${id}`, page.url()).href);
    await submit(await openDialog(page, "Cancel the form …", "Cancel the form"), "Cancel it for good");
    await button(page, "Cancel the form …").waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Form status");
  });
  await operator.members.set({ listingId: listing.id, userId: owner.id, role: "OWNER" });
});

it("a chart has its unit, its values and times, and says the numbers of a minute under the pointer and with the arrow keys", async () => {
  const minute = (requests: number, ago: number) => ({
    at: new Date(Date.now() - ago * 60_000).toISOString(),
    ...{ requests, errors: 0, refused: 0, p50Ms: null, p99Ms: null, emails: null, deliveries: null },
  });
  await visit("/console", async (page) => {
    await page.route("**/console.overview", async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      json.result.data.history = [minute(12, 2), minute(30, 1), minute(7, 0)];
      await route.fulfill({ response, json });
    });
    await page.reload();
    const chart = page.getByRole("figure").filter({ hasText: /^Requests, per minute/ });
    await expect.poll(() => chart.locator(".chart-values span").allTextContents()).toEqual(["40", "20", "0"]);
    expect(await chart.locator(".chart-times span").allTextContents()).toEqual(["60 min ago", "30 min ago", "now"]);
    await chart.getByText("In the hour: 49 requests").waitFor();
    const slider = chart.getByRole("slider", { name: "Requests, per minute: minute" });
    const { width = 0 } = (await slider.boundingBox()) ?? {};
    await slider.hover({ position: { x: (58.5 / 60) * width, y: 20 } });
    await chart.getByText(/^\d+:\d\d.*: +30 requests$/).waitFor();
    await page.mouse.move(0, 0);
    await chart.getByText("In the hour: 49 requests").waitFor();
    await slider.focus();
    expect(await slider.getAttribute("aria-valuetext")).toBe("This minute: 7 requests");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await expect.poll(() => slider.getAttribute("aria-valuetext")).toMatch(/^\d+:\d\d.*: 12 requests$/);
    await page.keyboard.press("ArrowLeft");
    await expect.poll(() => slider.getAttribute("aria-valuetext")).toBe("3 min ago, before the start: –");
  });
});

it("on a phone the header takes at most 60 px; its menu is opened by keyboard, leads to the pages, and closes there", async () => {
  await visit("/console/forms", async (page) => {
    await page.setViewportSize({ width: 375, height: 800 });
    await settle(page);
    const header = page.getByRole("banner");
    expect((await header.boundingBox())?.height).toBeLessThanOrEqual(60);
    expect(await button(page, "Sign out").count()).toBe(0);
    const menu = header.getByRole("button", { name: "Menu, Forms" });
    await menu.focus();
    await page.keyboard.press("Enter");
    expect(await menu.getAttribute("aria-expanded")).toBe("true");
    await button(page, "Sign out").waitFor();
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Overview");
    await page.getByRole("link", { name: "Users", exact: true }).press("Enter");
    await header.getByRole("button", { name: "Menu, Users" }).waitFor();
    await expect.poll(() => focused(page)).toBe("Users");
    expect((await header.boundingBox())?.height).toBeLessThanOrEqual(60);
  });
});

it("Webhooks has counts on its tabs, opens on the first state that has deliveries, and stays there", async () => {
  const { id } = await operator.webhooks.create({ url: "https://hooks.example.com/", listingIds: [listing.id] });
  const other = await operator.webhooks.create({ url: "https://other.example.com/", events: ["form.moved"] });
  await sql("DELETE FROM webhook_deliveries");
  const ids = await addDeliveries(sql, id, 3);
  await sql(setState("webhook_deliveries", "retrying", `id IN (${ids.join()})`));
  await addDeliveries(sql, other.id, 10_001);
  await visit("/console/webhooks", async (page) => {
    const tabs = page.getByRole("navigation", { name: "State of the deliveries" });
    const open = tabs.locator("[aria-current]");
    await open.getByText("retrying 3").waitFor();
    expect((await tabs.getByRole("link").allTextContents()).map((text) => text.trim())).toEqual([
      "failed 0",
      "retrying 3",
      "expired 0",
      "waiting 10,000+",
      "running 0",
      "out of scope 0",
    ]);
    await page
      .getByRole("link", { name: shortId(other.id) })
      .first()
      .click();
    await open.getByText("waiting 10,000+").waitFor();
    await page.goBack();
    await open.getByText("retrying 3").waitFor();
    await submit(
      await openDialog(page, /^Redeliver all failed to https:\/\/hooks/, "Redeliver all failed"),
      "Redeliver",
    );
    await open.getByText("retrying 0").waitFor();
  });
});

it("Webhooks lists failed deliveries while they cannot be counted", async () => {
  const { id } = await operator.webhooks.create({ url: "https://uncounted.example.com/", listingIds: [listing.id] });
  const [delivery] = await addDeliveries(sql, id, 1);
  await sql(setState("webhook_deliveries", "failed", `id = ${delivery}`));
  await visit(
    "/console",
    async (page) => {
      await page.route("**/webhooks.count", (route) => route.fulfill({ status: 503 }));
      await page.getByRole("link", { name: "Webhooks", exact: true }).click();
      const deliveries = page.getByRole("table", { name: "Deliveries, newest first" });
      await deliveries.getByRole("link", { name: shortId(id) }).waitFor();
    },
    failed(503),
  );
});

it("the report of doctor has links to the pages that deal with its problems, and no command for them", async () => {
  await failEmail();
  const endpoint = await operator.webhooks.create({ url: "https://fails.example.com/" });
  await sql("UPDATE webhook_endpoints SET failing_since = now() WHERE id = $1", endpoint.id);
  await sql("UPDATE listings SET timezone = 'Mars/Base' WHERE id = $1", listing.id);
  const other = await startInternalGateway({ DATABASE_URL: String(services.db.url) });
  await visit(
    "/console",
    async (page) => {
      const health = section(page, "Health");
      for (const [link, path] of [
        ["Emails that failed", "/console/emails?state=failed"],
        ["Webhook endpoints", "/console/webhooks"],
        [listing.title, `/console/listings/${listing.id}`],
      ])
        expect(
          await health
            .getByRole("link", { name: link ?? "" })
            .first()
            .getAttribute("href"),
        ).toBe(path);
      await health
        .getByText(/^emails|1 failed: /)
        .first()
        .waitFor();
      expect(await health.textContent()).not.toMatch(/guest-forms (emails|webhooks|listings)/);
    },
    { at: other.url },
  );
  await sql("UPDATE listings SET timezone = 'Europe/Berlin' WHERE id = $1", listing.id);
});

it("two installations at one host name are open in one browser, and neither sign-in ends the other", async () => {
  const token = `${TOKEN}-of-another`;
  const other = await startInternalGateway({ INTERNAL_TOKEN: token });
  await visit("/console", async (page) => {
    const there = await page.context().newPage();
    await there.goto(`${other.url}/console`);
    await there.getByLabel("Operator’s token").fill(token);
    await there.getByLabel("Your name").fill("Grace");
    await button(there, "Sign in").click();
    await there.getByText("Grace").waitFor();
    await page.reload();
    await page.getByText("Ada Operator").waitFor();
    await there.reload();
    await there.getByText("Grace").waitFor();
    await button(there, "Sign out").click();
    await there.getByRole("dialog", { name: "Guest forms console" }).waitFor();
    await page.reload();
    await page.getByText("Ada Operator").waitFor();
  });
});
