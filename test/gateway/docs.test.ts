import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeListing } from "../factories.js";
import { type Holder, startTestGateway, stay, type TestGateway } from "../gateway-harness.js";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  existsSync,
);
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 390, height: 844 };
const OPERATIONS = [
  ["Create form", "#tag/forms/POST/v1/forms"],
  ["List forms", "#tag/forms/GET/v1/forms"],
  ["Update form", "#tag/forms/PUT/v1/forms/{id}"],
  ["Fetch form", "#tag/forms/GET/v1/forms/{id}"],
  ["List listings", "#tag/listings/GET/v1/listings"],
  ["Fetch listing", "#tag/listings/GET/v1/listings/{id}"],
] as const;
const [CREATE, , , FETCH] = OPERATIONS;

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});

describe("the files of the reference page", () => {
  const get = (path: string, headers: Record<string, string> = {}) => fetch(gateway.url + path, { headers });
  const files = async () => [
    ...(await (await get("/docs")).text()).matchAll(/(?:src|href)="(\/docs[^"]+)"/g),
  ];

  it("come from this server alone, under a policy without eval and inline scripts", async () => {
    const answer = await get("/docs");
    expect(answer.status).toBe(200);
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).not.toMatch(/unsafe-eval|https?:|\*/);
    expect(await answer.text()).not.toMatch(/https?:\/\/(?!www\.w3\.org)/);
    expect(answer.headers.get("cache-control")).toBe("no-cache");
  });

  it("are kept for ever by caches, at addresses that change with their content", async () => {
    const found = await files();
    expect(found).toHaveLength(3);
    for (const [, path = ""] of found) {
      const answer = await get(path);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
      expect(path).toMatch(/^\/docs\/[0-9a-f]{16}\/[a-z]+\.(js|css)$/);
    }
  });

  it("are compressed for clients that accept it, and whole for all others", async () => {
    const [, viewer = ""] = (await files()).find(([, path]) => path?.endsWith("viewer.js")) ?? [];
    const compressed = await get(viewer, { "Accept-Encoding": "gzip, br" });
    const plain = await get(viewer, { "Accept-Encoding": "identity" });
    expect(compressed.headers.get("content-encoding")).toBe("gzip");
    expect(plain.headers.get("content-encoding")).toBeNull();
    expect(plain.headers.get("vary")).toBe("Accept-Encoding");
    const script = await plain.text();
    expect(await compressed.text()).toBe(script);
    const record = JSON.parse(readFileSync("gateway/docs/viewer/viewer.json", "utf8")) as { sha256: string };
    expect(createHash("sha256").update(script).digest("hex")).toBe(record.sha256);
  });

  it("are found with a slash too", async () => {
    const answer = await fetch(`${gateway.url}/docs/`, { redirect: "manual" });
    expect([answer.status, answer.headers.get("location")]).toEqual([308, "/docs"]);
  });
});

// CI must have it (.ci/run installs it); elsewhere its absence is no fault of the project.
const why = CHROMIUM || process.env.CI ? "" : ": SKIPPED, for no Chromium is found in /usr/bin";

describe.skipIf(why !== "")(`the reference page in Chromium${why}`, () => {
  let browser: Browser;
  let holder: Holder;
  let formId: string;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM ?? "chromium", args: ARGUMENTS });
    holder = await gateway.addHolder();
    const { id: listingId } = await makeListing(await gateway.services(), holder.userId);
    const created = await gateway.request({
      method: "POST",
      path: "/v1/forms",
      key: holder.key,
      body: stay(listingId),
    });
    formId = (created.json as { id: string }).id;
  });
  afterAll(() => browser?.close());

  interface Visit {
    page: Page;
    /** Requests to other origins, violations of the policy, errors of scripts: there must be none. */
    faults: string[];
  }

  async function visit(viewport = WIDE): Promise<Visit> {
    const page = await browser.newPage({ viewport });
    page.setDefaultTimeout(30_000);
    const faults: string[] = [];
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(`${gateway.url}/`) && !url.startsWith("data:")) faults.push(`asked for ${url}`);
    });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
    });
    page.on("pageerror", (error) => faults.push(String(error)));
    await page.goto(`${gateway.url}/docs`);
    await page.getByRole("heading", { name: "Guest forms API" }).waitFor();
    return { page, faults };
  }

  /** Jumps to an operation, for the viewer renders only what is near; gives its section. */
  async function jump(page: Page, [title, hash]: readonly [string, string]): Promise<Locator> {
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.getByRole("heading", { name: title, exact: true }).waitFor();
    return page.locator(`[id$="${hash.slice(1)}"]`);
  }

  const keyField = (page: Page) => page.locator(".scalar-reference-intro-auth input").first();

  /** Opens the operation's form, sends the request, and gives what the page shows of the answer. */
  async function tryFetch(page: Page): Promise<string> {
    await (await jump(page, FETCH)).getByRole("button", { name: /Test Request/ }).click();
    const client = page.getByRole("dialog");
    await client.getByRole("combobox", { name: "Value" }).first().fill(formId);
    await client.getByRole("button", { name: /^Send/ }).first().click();
    await client.getByText("200 OK").waitFor();
    await client.getByText(formId).last().waitFor();
    return String(await client.textContent());
  }

  it.each([
    ["wide", WIDE],
    ["narrow", NARROW],
  ])("renders the six operations in a %s window, with nothing from elsewhere", async (_, viewport) => {
    const { page, faults } = await visit(viewport);
    for (const operation of OPERATIONS) {
      const section = await jump(page, operation);
      await section.getByRole("button", { name: /Test Request/ }).waitFor();
      await section.getByText("application/json").first().waitFor();
    }
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    expect(faults).toEqual([]);
    await page.close();
  });

  it("lists the guides beside the operations, and samples in curl and TypeScript", async () => {
    const { page, faults } = await visit();
    for (const name of ["First request", "Paging", "Errors", "Rate limits"]) {
      await page.getByRole("link", { name, exact: true }).waitFor();
    }
    const samples = await jump(page, CREATE);
    await samples.getByText("$GUEST_FORMS_BASE_URL").waitFor();
    await samples.getByRole("button", { name: "curl" }).click();
    await page.getByRole("option", { name: "TypeScript SDK" }).click();
    await samples.getByText("client").first().waitFor();
    expect(String(await samples.textContent())).toContain("client.forms.create(");
    expect(faults).toEqual([]);
    await page.close();
  });

  it("fetches a form with a key typed in, sent as Authorization, and forgets the key", async () => {
    const { page, faults } = await visit();
    await keyField(page).fill(holder.readOnlyKey);
    const sent = page.waitForRequest(/\/v1\/forms\//);
    expect(await tryFetch(page)).toContain('"status": "SENT"');
    expect(await (await sent).headerValue("authorization")).toBe(`Bearer ${holder.readOnlyKey}`);
    await page.reload();
    expect(await keyField(page).inputValue()).toBe("");
    expect(faults).toEqual([]);
    await page.close();
  });

  it("sends the key as X-API-Key where that is chosen", async () => {
    const { page, faults } = await visit();
    const card = page.locator(".scalar-reference-intro-auth");
    await card.getByRole("button", { name: /Selected Auth Type/ }).click();
    await page.getByRole("option", { name: "apiKey" }).click();
    await page.getByRole("option", { name: "bearer" }).click();
    await page.getByRole("heading", { name: "Guest forms API" }).click();
    await card.getByText("X-API-Key: grf_").waitFor();
    await keyField(page).fill(holder.readOnlyKey);
    const sent = page.waitForRequest(/\/v1\/forms\//);
    await tryFetch(page);
    expect(await (await sent).headerValue("x-api-key")).toBe(holder.readOnlyKey);
    expect(await (await sent).headerValue("authorization")).toBeNull();
    expect(faults).toEqual([]);
    await page.close();
  });
});
