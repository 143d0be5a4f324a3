import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { ALL_STATES } from "../../server/constants.js";
import { findBarriers } from "../support/chromium.js";
import { prepareConsoleData } from "./console-data.js";
import { button, openDialog, settle, startConsole } from "./console-page.js";

const { url, services, visit } = await startConsole();
const { owner, listing, inactive, endpoint, disabled, forms, correlationId } = await prepareConsoleData(services);

const LISTING = `/console/listings/${listing.id}`;
const USER = `/console/users/${owner.id}`;
const ENDPOINT = `/console/webhooks/${endpoint.id}`;
const FORM = `/console/forms/${forms.failed.id}`;
const MISSING = "00000000-0000-4000-8000-000000000000";

const PAGES = [
  "/console",
  "/console/forms",
  `/console/forms?status=SENT&listingId=${listing.id}&userId=${owner.id}`,
  ...Object.values(forms).map(({ id }) => `/console/forms/${id}`),
  "/console/find?q=a",
  "/console/find?q=nothing-has-this-name",
  "/console/listings",
  LISTING,
  `/console/listings/${inactive.id}`,
  "/console/users",
  USER,
  "/console/emails",
  ...ALL_STATES.map((state) => `/console/emails?state=${state}`),
  "/console/webhooks",
  ENDPOINT,
  `/console/webhooks/${disabled.id}`,
  "/console/trace",
  `/console/trace?id=${correlationId}`,
  "/console/trace?id=no-id",
  "/console/no-such-page",
  `/console/forms/${MISSING}`,
];

const DIALOGS: [path: string, ...buttons: (string | RegExp)[]][] = [
  [FORM, "Other status …", "Send the invitation …"],
  ["/console/listings", "New listing"],
  [LISTING, "Edit", "Deactivate", "Add member", /^Change the role of /, /^Remove /],
  ["/console/users", "New user"],
  [USER, "Edit", "Issue key", /^Rotate grf_/, /^Revoke grf_/, "New endpoint"],
  ["/console/webhooks", "New endpoint"],
  [ENDPOINT, "Edit", "Rotate secret", "Disable", "Delete", "Redeliver failed", "Redeliver a time range"],
];

const WIDTHS = [360, 768, 1280, 1920];
/** Only the contrast depends on the theme. */
const AXE_WIDTHS = { light: [360, 1280], dark: [1280] };
/** The frame of an email is its own document, which `emails.browser.ts` checks. */
const AXE = { iframes: false };
const NOT_FOUND = /status of 40[14]/;

/** What is wrong with how the page looks now, in both themes. */
async function findFaults(page: Page, widths: number[]): Promise<string[]> {
  const faults: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      const found = await page.evaluate<string[]>("[...cutTexts(), ...lowContrast()]");
      if (AXE_WIDTHS[colorScheme].includes(width)) found.push(...(await findBarriers(page, AXE)));
      faults.push(...found.map((fault) => `${colorScheme}, ${width} px: ${fault}`));
    }
  }
  return faults;
}

it("no page overflows, cuts texts, has a contrast below 4.5, or a barrier that axe finds, on any width in light and dark", async () => {
  const faults: string[] = [];
  await visit(
    "/console",
    async (page) => {
      for (const path of PAGES) {
        await page.goto(url + path);
        await settle(page);
        faults.push(...(await findFaults(page, WIDTHS)).map((fault) => `${path}: ${fault}`));
      }
    },
    { expected: NOT_FOUND },
  );
  expect(faults).toEqual([]);
}, 180_000);

it("no dialog overflows, cuts texts, has a contrast below 4.5, or a barrier that axe finds", async () => {
  const faults: string[] = [];
  await visit("/console", async (page) => {
    for (const [path, ...names] of DIALOGS) {
      await page.goto(url + path);
      await settle(page);
      for (const name of names) {
        await button(page, name).first().click();
        const dialog = page.getByRole("dialog");
        await dialog.waitFor();
        await settle(page);
        const found = await findFaults(page, [360, 1280]);
        // A long value scrolls in its field.
        faults.push(...found.filter((fault) => !/px: field /.test(fault)).map((fault) => `${path}, ${name}: ${fault}`));
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
      }
    }
  });
  expect(faults).toEqual([]);
}, 180_000);

it("nor does the sign-in, also after a wrong token", async () => {
  await visit(
    "/console",
    async (page) => {
      await page.getByLabel("Your name").fill("Ada");
      expect(await findFaults(page, WIDTHS)).toEqual([]);
      await page.getByLabel("Operator’s token").fill("wrong");
      await button(page, "Sign in").click();
      await page.getByRole("alert").waitFor();
      expect(await findFaults(page, WIDTHS)).toEqual([]);
    },
    { isSignedIn: false },
  );
});

it("the first load takes at most 150 kB, compressed, with all data of the first page", async () => {
  await visit("/console", async (page) => {
    await page.reload();
    await settle(page);
    const transferred = await page.evaluate<number>(
      "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]" +
        ".reduce((sum, { transferSize, encodedBodySize }) => sum + Math.max(transferSize, encodedBodySize), 0)",
    );
    expect(transferred).toBeGreaterThan(20_000);
    expect(transferred).toBeLessThanOrEqual(150_000);
  });
});

it("no page receives a guest’s address, not even in the reason of a mail server or the preview of an email", async () => {
  const received: string[] = [];
  await visit("/console", async (page) => {
    page.on("response", async (response) => {
      received.push(`${response.url()} ${await response.text().catch(() => "")}`);
    });
    for (const path of ["/console/forms", "/console/emails?state=failed", FORM]) {
      await page.goto(url + path);
      await settle(page);
    }
    await openDialog(page, "Send the invitation …", "Send the invitation");
    await page.frameLocator("iframe").getByText(listing.title).first().waitFor();
  });
  const all = received.join("\n");
  for (const part of [
    "forms.listAll",
    "notifications.preview",
    `/console/emails/${forms.failed.id}.html`,
    "no such user",
  ])
    expect(all).toContain(part);
  expect(all.includes("guests.test")).toBe(false);
});
