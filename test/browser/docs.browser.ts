import { readFileSync } from "node:fs";
import { STATUS_CODES } from "node:http";
import { join } from "node:path";
import type { BrowserContextOptions, Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { prepareDemo } from "../../gateway/dev/demo.js";
import { packageRoot } from "../../prisma/package-root.js";
import { SHOWN_FORM, SHOWN_LISTING } from "../contract/samples.js";
import { DOCS_PAGES as PAGES } from "../gateway/docs-pages.js";
import { startTestGateway } from "../support/gateway.js";
import { DESKTOP, findBarriers, openChromium, openPage } from "./chromium.js";

/** Each operation of the document, and its success as the page shows it. */
const { paths } = JSON.parse(readFileSync(join(packageRoot(), "gateway/openapi/openapi.json"), "utf8"));
const OPERATIONS = Object.values<Record<string, { operationId: string; responses: object }>>(paths)
  .flatMap((item) => Object.values(item))
  .map(({ operationId, responses }) => {
    const status = Object.keys(responses)[0] ?? "";
    return [operationId, `${status} ${STATUS_CODES[status]}`] as const;
  });

const gateway = await startTestGateway();
const browser = await openChromium();
const demo = await prepareDemo(await gateway.services(), {}, () => {});

const PHONE = { width: 390, height: 844 };
const LARGE = { width: 1920, height: 1080 };
const SIZES = [PHONE, { width: 768, height: 1024 }, DESKTOP, LARGE];

/** Opens a page. Fails if, by the end of `use`, it requests another origin, violates its security policy or throws. */
async function visit(path: string, options: BrowserContextOptions, use: (page: Page) => Promise<void>) {
  const { context, page, faults } = await openPage(browser, { origin: gateway.url, ...options });
  await page.goto(gateway.url + path);
  await use(page);
  expect(faults).toEqual([]);
  await context.close();
}

const article = (page: Page, operation: string) => page.locator(`article:has(#${operation})`);

/** Opens the form of an operation, enters the key if there is none yet, and presses the button once. */
async function pressSend(page: Page, operation: string, key: string): Promise<Locator> {
  const form = article(page, operation).locator(".try");
  await form.locator("summary").click();
  const field = form.getByLabel("API key");
  if ((await field.inputValue()) === "") await field.fill(key);
  await form.getByRole("button", { name: "Send request" }).click();
  await form.locator(".answer").waitFor();
  return form;
}

it.each(SIZES)("nothing is cut off or overflows at $width px", async (viewport) => {
  await visit("/docs", { viewport }, async (page) => {
    for (const path of PAGES) {
      await page.goto(gateway.url + path);
      expect(await page.evaluate("cutTexts()"), path).toEqual([]);
    }
    for (const [operation] of OPERATIONS) await pressSend(page, operation, demo.readWriteKey);
    for (const label of ["curl", "JavaScript", "TypeScript SDK", "Python", "PHP", "Java", "C#"]) {
      await article(page, "updateForm").getByLabel(label, { exact: true }).check();
      expect(await page.evaluate("cutTexts()"), label).toEqual([]);
    }
  });
});

it("a selected language applies to all samples, and is remembered", async () => {
  await visit("/docs/reference", {}, async (page) => {
    await article(page, "updateForm").getByLabel("Python").check();
    await page.reload();
    for (const [operation] of OPERATIONS) {
      expect(await article(page, operation).getByLabel("Python").isChecked(), operation).toBe(true);
      const shown = article(page, operation).locator(".sample:has(.tabs) pre:visible");
      expect(await shown.allTextContents()).toEqual([expect.stringContaining("urllib.request")]);
    }
  });
});

it.each(["light", "dark"] as const)(
  "every text has a contrast of at least 4.5 in the %s theme",
  async (colorScheme) => {
    await visit("/docs", { colorScheme }, async (page) => {
      for (const path of PAGES) {
        await page.goto(gateway.url + path);
        await page.getByLabel("Search the documentation").fill("form");
        await page.locator("#results a").first().waitFor();
        expect(await page.evaluate("lowContrast()"), path).toEqual([]);
      }
      for (const [operation] of OPERATIONS) await pressSend(page, operation, demo.readWriteKey);
      expect(await page.evaluate("lowContrast()"), "answers").toEqual([]);
    });
  },
);

it("axe finds no barrier to accessibility on any page, in answers, and in the search on a phone", async () => {
  await visit("/docs", {}, async (page) => {
    for (const path of PAGES) {
      await page.goto(gateway.url + path);
      expect(await findBarriers(page), path).toEqual([]);
    }
    for (const [operation] of OPERATIONS) await pressSend(page, operation, demo.readWriteKey);
    expect(await findBarriers(page), "answers").toEqual([]);
    await page.setViewportSize(PHONE);
    await page.getByLabel("Search the documentation").fill("form");
    await page.locator("#results a").first().waitFor();
    expect(await findBarriers(page), "a search on a phone").toEqual([]);
  });
});

it.each(OPERATIONS)("%s succeeds when Send is pressed for the first time: %s", async (operation, status) => {
  await visit(`/docs/reference#${operation}`, { viewport: PHONE }, async (page) => {
    const form = await pressSend(page, operation, demo.readWriteKey);
    expect(await form.locator(".status strong").textContent()).toBe(status);
    expect(await form.locator(".answer").textContent()).toContain(demo.listings[0]?.id);
  });
});

it("a rejected request shows its error code with a link to its section", async () => {
  await visit("/docs/reference", {}, async (page) => {
    const form = await pressSend(page, "createForm", demo.readWriteKey);
    await page.locator("#createForm-numberOfGuests").fill("1000");
    // The browser logs an error response to the console as an error.
    page.removeAllListeners("console");
    await form.getByRole("button", { name: "Send request" }).click();
    await form.getByText("400 Bad Request").waitFor();
    const link = form.getByRole("link", { name: "What VALIDATION_ERROR means" });
    expect(await link.getAttribute("href")).toBe("/docs/errors#validation_error");
  });
});

it("samples show this server's address, and ids in the key's scope once a key is entered", async () => {
  await visit("/docs/reference", {}, async (page) => {
    const samples = async () => (await page.locator(".sample:not(.response) pre").allTextContents()).join("\n");
    expect(await samples()).not.toMatch(/GUEST_FORMS_BASE_URL|environ\[\]|getenv\(\)/);
    const calls = ["fetch(", "    ", "fopen(", "create(", "url = "].map((call) => `${call}"${gateway.url}" `);
    for (const part of [`"${gateway.url}/v1/forms"`, ...calls]) expect(await samples()).toContain(part);
    await page.locator("#key").fill(demo.readOnlyKey);
    await page.getByText("Key accepted. The samples now use your listings and forms.").waitFor();
    const filled = await samples();
    expect(filled).toContain(demo.listings[0]?.id);
    expect(filled).not.toMatch(new RegExp(`${SHOWN_FORM}|${SHOWN_LISTING}|${demo.readOnlyKey}`));
    const field = article(page, "getListing").locator("[name=id]");
    expect(await field.inputValue()).toBe(demo.listings[0]?.id);
    await page.locator("#key").fill("grf_");
    expect(await samples(), "nothing of the key before").not.toContain(demo.listings[0]?.id);
    expect(await field.inputValue()).toBe("");
  });
  await visit("/docs/reference", {}, async (page) => {
    const responses = page.locator(".response pre");
    const shown = await responses.allTextContents();
    await page.locator("#key").fill(demo.readWriteKey);
    await page.getByText("Key accepted.").waitFor();
    expect(await responses.allTextContents(), "an existing form is not shown as a new one").toEqual(shown);
  });
  await visit("/docs/first-request", {}, async (page) => {
    await page.getByText(`export GUEST_FORMS_BASE_URL=${gateway.url}`).waitFor();
  });
});

it("the filter of a list is empty, so that the first request lists every form", async () => {
  await visit("/docs/reference", {}, async (page) => {
    const sent = page.waitForRequest((request) => request.url() === `${gateway.url}/v1/forms`);
    await pressSend(page, "listForms", demo.readOnlyKey);
    await sent;
    expect(await page.locator("#listForms-listingId").inputValue()).toBe("");
  });
});

it("the key is sent as a bearer token, stored nowhere, and gone after a reload", async () => {
  await visit("/docs/reference", {}, async (page) => {
    const sent = page.waitForRequest(/\/v1\/forms\/[^/]+$/);
    await pressSend(page, "getForm", demo.readOnlyKey);
    const request = await sent;
    expect(await request.headerValue("authorization")).toBe(`Bearer ${demo.readOnlyKey}`);
    expect(page.url()).not.toContain(demo.readOnlyKey);
    const stored = "JSON.stringify([localStorage, sessionStorage, document.cookie, history.state])";
    expect(await page.evaluate(stored)).toBe('[{},{},"",null]');
    await page.reload();
    expect(await page.locator("#key").inputValue()).toBe("");
  });
});

it("the samples of an operation stay in view until its last error", async () => {
  await visit("/docs/reference", {}, async (page) => {
    const create = article(page, "createForm");
    const last = "[...document.querySelectorAll('article:has(#createForm) .fields')].at(-1)";
    await page.evaluate(`${last}.scrollIntoView({ block: "end", behavior: "instant" })`);
    const header = await page.locator("header").boundingBox();
    const samples = await create.locator(".samples").boundingBox();
    expect(samples?.y).toBeCloseTo(header?.height ?? 0, 0);
  });
});

it("a mistyped key is named, and a request says that it acts on real data", async () => {
  await visit("/docs/reference", {}, async (page) => {
    const form = article(page, "createForm").locator(".try");
    await form.locator("summary").click();
    await form.getByText("Creates real data, and a guest whose address you give gets a real email.").waitFor();
    await page.locator("#key").fill(demo.readWriteKey.slice(0, -1));
    await page.locator("#key").blur();
    await page.locator(".key .status", { hasText: "This is not a whole API key" }).waitFor();
    await form.getByRole("button", { name: "Send request" }).click();
    await form.getByText("This is not a whole API key").waitFor();
    await page.locator("#key").fill(demo.readWriteKey);
    await page.getByText("Key accepted.").waitFor();
  });
});

it.each([
  ["IDEMPOTENCY_KEY_REUSED", "Errors: IDEMPOTENCY_KEY_REUSED"],
  ["create form", "API reference: Create form"],
  ["idempotncy", "Create once, retry freely"],
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

it.each([DESKTOP, LARGE])("the text of all pages begins at the same place at $width px", async (viewport) => {
  await visit("/docs", { viewport }, async (page) => {
    const places = new Set<number | undefined>();
    for (const path of PAGES) {
      await page.goto(gateway.url + path);
      places.add((await page.locator("h1").boundingBox())?.x);
    }
    expect([...places]).toEqual([expect.any(Number)]);
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
