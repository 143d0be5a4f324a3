import { expect, it } from "vitest";
import { DOCS_PAGES as PAGES } from "../gateway/docs-pages.js";
import { DESKTOP, openDocs, PHONE } from "./docs-page.js";

const { gateway, visit } = await openDocs();

it.each([
  ["429", "Rate limits"],
  ["python", "First request: Python"],
  ["idempotency", "Create once, retry freely"],
  ["IDEMPOTENCY_KEY_REUSED", "Errors: IDEMPOTENCY_KEY_REUSED"],
  ["webhook", "Webhooks"],
  ["create form", "API reference: Create form"],
  ["idempotncy", "Create once, retry freely"],
  ["cancel", "Recipes: Sync bookings"],
  ["cors", "TypeScript SDK: Browsers"],
  ["standby", "Operating: Fail over to a standby"],
])("the search for %s finds %s, by keyboard", async (words, title) => {
  await visit("/docs", {}, async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type(words);
    const found = page.locator("#results a", { hasText: title }).first();
    await found.waitFor();
    await page.keyboard.press("ArrowDown");
    const target = await page.locator("#results a").first().getAttribute("href");
    await page.keyboard.press("Enter");
    await page.waitForURL(gateway.url + target);
    expect(await page.locator("h1").textContent()).not.toBe("");
  });
});

it("the search says how many results there are and how many it shows, to screen readers too, and if its index does not load", async () => {
  await visit("/docs", {}, async (page) => {
    const search = page.getByLabel("Search the documentation");
    const status = page.getByRole("status");
    const indexes = "**/search.json";
    await page.route(indexes, (route) => route.fulfill({ body: "<html>" }));
    await search.fill("form");
    await page.locator("#results").getByText("The search could not be loaded. Type again to retry.").waitFor();
    await page.unroute(indexes);
    await search.fill("forms");
    await page
      .locator("#results")
      .getByText(/^The first 12 of \d+ results$/)
      .waitFor();
    expect(await page.locator("#results a").count()).toBe(12);
    expect(await status.textContent()).toMatch(/^The first 12 of \d+ results$/);
    await search.fill("unicorn");
    await page.locator("#results").getByText("No results").waitFor();
    expect(await status.textContent()).toBe("No results");
    await search.fill("");
    expect(await status.textContent()).toBe("");
  });
});

it("Ctrl+K focuses the search, also from a field", async () => {
  await visit("/docs/reference", {}, async (page) => {
    await page.locator("#key").focus();
    await page.keyboard.press("Control+k");
    expect(await page.evaluate("document.activeElement.id")).toBe("search");
  });
});

it.each([DESKTOP, { width: 1920, height: 1080 }])(
  "the text of all pages begins at the same place at $width px",
  async (viewport) => {
    await visit("/docs", { viewport }, async (page) => {
      const places = new Set<number | undefined>();
      for (const path of PAGES) {
        await page.goto(gateway.url + path);
        places.add((await page.locator("h1").boundingBox())?.x);
      }
      expect([...places]).toEqual([expect.any(Number)]);
    });
  },
);

it("the navigation has the pages in groups", async () => {
  await visit("/docs/operating", {}, async (page) => {
    expect(await page.locator("nav p").allTextContents()).toEqual(["Guides", "Reference", "Operating"]);
    expect(await page.locator("nav [aria-current]").textContent()).toBe("Operating");
  });
});

it("the first Tab reaches a link that skips to the content", async () => {
  await visit("/docs/errors", {}, async (page) => {
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to content");
    await page.keyboard.press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("content");
  });
});

it("the navigation is behind a button on a phone, and beside the text on a desktop", async () => {
  await visit("/docs", { viewport: PHONE }, async (page) => {
    const entry = page.getByRole("navigation").getByRole("link", { name: "Paging" });
    expect(await entry.isVisible()).toBe(false);
    await page.getByRole("button", { name: "Menu" }).click();
    await entry.click();
    await page.getByRole("heading", { name: "Paging", level: 1 }).waitFor();
  });
  await visit("/docs", {}, async (page) => {
    expect(await page.getByRole("link", { name: "Paging" }).first().isVisible()).toBe(true);
    expect(await page.getByRole("button", { name: "Menu" }).isVisible()).toBe(false);
  });
});

it("a printed page has the text, but no header, navigation, forms or buttons", async () => {
  await visit("/docs/reference", {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    for (const part of ["header", "nav", ".try", ".copy", "footer"]) {
      expect(await page.locator(part).first().isVisible(), part).toBe(false);
    }
    expect(await page.getByRole("heading", { name: "Create form" }).isVisible()).toBe(true);
  });
});
