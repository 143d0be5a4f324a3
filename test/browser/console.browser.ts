import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { DELIVERY_STATES, EMAIL_STATES } from "../../server/constants.js";
import { findBarriers } from "./chromium.js";
import { prepareConsoleData } from "./console-data.js";
import { button, openDialog, settle, startConsole, submit } from "./console-page.js";

const { url, gateway, services, visit } = await startConsole();
const { owner, listing, inactive, endpoint, forms, correlationId } = await prepareConsoleData(services);

const LISTING = `/console/listings/${listing.id}`;
const USER = `/console/users/${owner.id}`;
const FORM = `/console/forms/${forms.failed.id}`;
const MISSING = "00000000-0000-4000-8000-000000000000";

const PAGES = [
  "/console",
  "/console/forms",
  `/console/forms?status=SENT&listingId=${listing.id}&userId=${owner.id}`,
  ...Object.values(forms).map(({ id }) => `/console/forms/${id}`),
  "/console/find",
  `/console/find?q=${MISSING}`,
  "/console/listings",
  LISTING,
  `/console/listings/${inactive.id}`,
  "/console/users",
  USER,
  "/console/emails",
  ...EMAIL_STATES.map((state) => `/console/emails?state=${state}`),
  "/console/webhooks",
  ...DELIVERY_STATES.filter((state) => state !== "sent").map((state) => `/console/webhooks?state=${state}`),
  ...DELIVERY_STATES.map((state) => `/console/webhooks?state=${state}&endpoint=${endpoint.id}`),
  "/console/trace",
  `/console/trace?id=${correlationId}`,
  "/console/trace?id=no-id",
  "/console/no-such-page",
  `/console/forms/${MISSING}`,
];

const DIALOGS: [path: string, ...buttons: (string | RegExp)[]][] = [
  [FORM, "Send the invitation …"],
  ["/console/listings", "New listing"],
  [LISTING, "Edit", "Set a member’s role", /^Remove /],
  ["/console/users", "New user"],
  [USER, "Edit", "Issue key", /^Rotate grf_/, /^Revoke grf_/, "Set the role on a listing", /^Remove /],
  ["/console/emails", "Retry all failed"],
  ["/console/webhooks", /^Redeliver all failed to /],
];

/** 1136 px: the narrowest with tables instead of cards. */
const WIDTHS = [360, 768, 1136, 1280, 1920];
const DIALOG_WIDTHS = [360, 1280];
/** Only the contrast depends on the theme. */
const AXE_WIDTHS = { light: [360, 1280], dark: [1280] };
const EXPECTED = /status of 40[014]/;

/** What is wrong with how the page looks now, in both themes. */
async function findFaults(page: Page, widths: number[]): Promise<string[]> {
  const faults: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    // Without transitions: a color halfway would be judged.
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.locator(`html[data-bs-theme=${colorScheme}]`).waitFor({ state: "attached" });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      const found = await page.evaluate<string[]>("[...cutTexts(), ...lowContrast()]");
      if (AXE_WIDTHS[colorScheme].includes(width)) found.push(...(await findBarriers(page)));
      faults.push(...found.map((fault) => `${colorScheme}, ${width} px: ${fault}`));
    }
  }
  return faults;
}

it("no page overflows, cuts texts, has a contrast below 4.5, or a barrier that axe finds, on any width in light and dark", async () => {
  const faults: string[] = [];
  const check = async (page: Page, name: string) => {
    await settle(page);
    const found = await findFaults(page, WIDTHS);
    // On a phone an id scrolls in its field.
    faults.push(...found.filter((fault) => !/360 px: field /.test(fault)).map((fault) => `${name}: ${fault}`));
  };
  await visit(
    "/console",
    async (page) => {
      for (const path of PAGES) {
        await page.goto(url + path);
        await check(page, path);
      }
      await page.getByRole("searchbox").first().fill("house");
      await page.keyboard.press("Enter");
      await page
        .getByRole("status")
        .getByText(/^\d+ shown/)
        .waitFor();
      await check(page, "what Find found");
    },
    { expected: EXPECTED },
  );
  expect(faults).toEqual([]);
}, 600_000);

it("no dialog overflows, cuts texts, has a contrast below 4.5, or a barrier that axe finds", async () => {
  const faults: string[] = [];
  const check = async (page: Page, name: string) => {
    await settle(page);
    const found = await findFaults(page, DIALOG_WIDTHS);
    // A long value scrolls in its field.
    faults.push(...found.filter((fault) => !/px: field /.test(fault)).map((fault) => `${name}: ${fault}`));
  };
  await visit("/console", async (page) => {
    for (const [path, ...names] of DIALOGS) {
      await page.goto(url + path);
      await settle(page);
      for (const name of names) {
        await button(page, name).first().click();
        const dialog = page.getByRole("dialog");
        await dialog.waitFor();
        await check(page, `${path}, ${name}`);
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
      }
    }
    await page.goto(url + USER);
    await button(await openDialog(page, "Issue key", /^Issue a key/), "Issue key").click();
    const shown = page.getByRole("dialog", { name: "New key" });
    gateway.forbidInLog((await shown.locator("code").textContent()) ?? "");
    await check(page, "a new key");
    await submit(shown, "I have saved it");
  });
  expect(faults).toEqual([]);
}, 600_000);

it("nor does the sign-in, also after a wrong token", async () => {
  await visit(
    "/console",
    async (page) => {
      await page.getByLabel("Your name").fill("Ada");
      expect(await findFaults(page, WIDTHS)).toEqual([]);
      await page.getByLabel("Operator’s token").fill("wrong");
      await button(page, "Sign in").click();
      await page.getByText("The operator’s token is wrong.").waitFor();
      await settle(page);
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
