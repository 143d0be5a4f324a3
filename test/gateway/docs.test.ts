import { statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createSearch } from "../../gateway/docs/browser/find.js";
import { packageRoot } from "../../prisma/package-root.js";
import { ERRORS } from "../../server/errors.js";
import { FORM_STATUSES, STAGES } from "../../server/forms/status.js";
import { EVENTS } from "../../server/webhooks/event-schema.js";
import { startTestGateway } from "../support/gateway.js";
import { MARKDOWN_PAGES, DOCS_PAGES as PAGES } from "./docs-pages.js";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const gateway = await startTestGateway();

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(gateway.url + path, { headers, redirect: "manual" });
const text = async (path: string) => (await get(path)).text();

async function readSearchIndex() {
  const [path = ""] = /\/docs\/[0-9a-f]{16}\/search\.json/.exec(await text("/docs")) ?? [];
  return JSON.parse(await text(path));
}

describe("the pages", () => {
  it.each(PAGES)("%s is HTML with one title, under a policy without inline scripts and other origins", async (path) => {
    const answer = await get(path);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(answer.headers.get("content-security-policy")).toBe(POLICY);
    expect(answer.headers.get("cache-control")).toBe("no-cache");
    const page = await answer.text();
    expect(page.match(/<h1>/g)).toHaveLength(1);
    expect(page).not.toMatch(/<script>|<style|style="|src="https?:|<link[^>]+href="https?:/);
    const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
    expect(new Set(ids).size, "ids are unique").toBe(ids.length);
  });

  it("every link and anchor leads to something that exists", async () => {
    const sources = [...PAGES, ...MARKDOWN_PAGES.map((path) => `${path}.md`), "/llms.txt"];
    const links = new Set<string>();
    for (const source of sources) {
      for (const [, html, markdown] of (await text(source)).matchAll(/(?:href|src)="([^"]+)"|\]\(([^)]+)\)/g)) {
        const url = new URL(html ?? markdown ?? "", gateway.url + source);
        if (url.origin === gateway.url) links.add(url.pathname + url.hash);
      }
    }
    for (const link of links) {
      const [path = "", anchor] = link.split("#");
      const answer = await get(path);
      expect(answer.status, link).toBe(200);
      const page = path.endsWith(".md") ? await text(path.slice(0, -3)) : await answer.text();
      if (anchor) expect(page, link).toContain(` id="${anchor}"`);
    }
    expect(links.size).toBeGreaterThan(60);
  });

  it("every error code has a section, and the reference links to it", async () => {
    const errors = await text("/docs/errors");
    const reference = await text("/docs/reference");
    for (const code of Object.keys(ERRORS)) {
      const anchor = code.toLowerCase();
      expect(errors).toContain(`<h2 id="${anchor}"`);
      expect(reference).toContain(`<a href="/docs/errors#${anchor}"><code>${code}</code></a>`);
    }
  });

  it("every status is explained, in the order in which a form takes them", async () => {
    const concepts = await text("/docs/concepts.md");
    expect(concepts).toContain(STAGES.map((stage) => stage.join(" or ")).join(" → "));
    const explained = [...concepts.matchAll(/^\| `([A-Z_]+)` +\|/gm)].map(([, status]) => status);
    expect(explained).toEqual([...FORM_STATUSES]);
  });

  it("pages for the operator say so first, and no other page calls the operator's app the reader's", async () => {
    const forOperator = ["operating", "metrics", "alerts", "outgrow", "internal-tools", "guest-page"].map(
      (name) => `/docs/${name}`,
    );
    for (const path of forOperator) expect(await text(`${path}.md`), path).toMatch(/^# .*\n\nFor the operator[:.] /);
    for (const path of MARKDOWN_PAGES.filter((page) => !forOperator.includes(page)))
      expect(await text(`${path}.md`), path).not.toMatch(/your (app|application|operator)\b/i);
  });

  it("a trailing slash redirects to the page", async () => {
    for (const path of PAGES) {
      const answer = await get(`${path}/`);
      expect([answer.status, answer.headers.get("location")]).toEqual([308, path]);
    }
  });

  it("an unknown page is HTML with a search for a browser, and the envelope for every other client, with 404", async () => {
    for (const path of ["/docs/unknown", "/docs/Concepts", "/docs/concepts/more", "/docs/not-found", "/docs/%00"]) {
      const browser = await get(path, { Accept: "text/html,*/*;q=0.8" });
      expect([browser.status, browser.headers.get("content-type")]).toEqual([404, "text/html; charset=utf-8"]);
      expect(browser.headers.get("vary")).toBe("Accept, Accept-Encoding");
      expect(browser.headers.get("content-security-policy")).toBe(POLICY);
      expect(await browser.text()).toContain('<input id="search"');
      const other = await get(path);
      expect(other.status).toBe(404);
      expect(await other.json()).toMatchObject({ code: "RESOURCE_NOT_FOUND" });
    }
  });

  it("each operation says when it returns which error", async () => {
    const reference = await text("/docs/reference");
    const articles = reference.split('<article class="operation">');
    const articleOf = (id: string) => articles.find((article) => article.includes(`<h3 id="${id}"`)) ?? "";
    const [create, update] = [articleOf("createForm"), articleOf("updateForm")];
    expect(create).toContain("The listing does not exist or is out of the key&#39;s scope.");
    expect(update).toContain("The form or the listing does not exist or is out of the key&#39;s scope.");
    for (const article of [create, update]) {
      const [, errors = ""] = /<h4>Errors<\/h4>\n<dl class="fields">(.*?)<\/dl>/s.exec(article) ?? [];
      const conditions = [...errors.matchAll(/<dd>(.*?)<\/dd>/g)].map(([, condition]) => condition);
      expect(conditions.length).toBeGreaterThan(7);
      for (const condition of conditions) expect(condition).toMatch(/^[A-Z].{15,}\.$/);
    }
  });

  it("the reference has each event of webhooks with its fields and an example body, and the search finds it", async () => {
    const reference = await text("/docs/reference");
    const sections: { url: string }[] = await readSearchIndex();
    const articles = reference.split("<article");
    for (const event of EVENTS) {
      const type = event.shape.type.value;
      const article = articles.find((one) => one.includes(`<h3 id="${type}"`)) ?? "";
      const fields = [...article.matchAll(/<dt><code>([\w.]+)</g)].map(([, name]) => name);
      const inData = Object.keys(event.shape.data.shape).map((name) => `data.${name}`);
      expect(fields, type).toEqual(["type", "timestamp", "sentAt", ...inData]);
      expect(article).toContain(`&quot;type&quot;</span>: <span class="string">&quot;${type}&quot;`);
      expect(sections.map(({ url }) => url)).toContain(`/docs/reference#${type}`);
    }
    for (const header of ["webhook-id", "webhook-timestamp", "webhook-signature"]) {
      expect(reference).toContain(`<dt><code>${header}</code>`);
    }
  });

  it("the SDK of this version is served for npm", async () => {
    const response = await fetch(`${gateway.url}/docs/sdk.tgz`);
    const { size } = statSync(join(packageRoot(), "dist/sdk.tgz"));
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "application/gzip"]);
    expect((await response.arrayBuffer()).byteLength).toBe(size);
  });

  it("GET / redirects a browser to /docs, and answers every other client with 404 in the envelope", async () => {
    const browser = await get("/", { Accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" });
    expect([browser.status, browser.headers.get("location")]).toEqual([302, "/docs"]);
    expect(browser.headers.get("vary")).toBe("Accept");
    for (const accepted of ["*/*", "application/json", "image/png"]) {
      const answer = await get("/", { Accept: accepted });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ code: "RESOURCE_NOT_FOUND" });
    }
  });
});

describe("the search", async () => {
  const search = createSearch(await readSearchIndex());

  it.each([
    ["how do I retry a create safely", "/docs/safe-retries"],
    ["how do I avoid duplicate bookings", "/docs/safe-retries"],
    ["what happens when I send too many requests", "/docs/rate-limits"],
    ["how do I get the next page of reservations", "/docs/paging"],
    ["where do I get an API token", "/docs/first-request#get-a-key"],
    ["how do I cancel a booking", "/docs/recipes#sync-bookings"],
    ["which guests arrive tomorrow", "/docs/recipes#who-arrives-tomorrow-and-has-not-registered"],
    ["what is stored of guests", "/docs/concepts#what-is-stored-of-guests"],
    ["how are callbacks signed", "/docs/webhooks"],
    ["how can I test my code without the service", "/docs/sdk#test-your-program"],
    ["how do I change the dates of a reservation", "/docs/reference#updateForm"],
    ["how do I list my apartments", "/docs/reference#listListings"],
    ["which statuses can a form have", "/docs/concepts#statuses"],
    ["how do I back up the database", "/docs/operating#back-up-and-restore"],
  ])("the question %s has %s among its first three results", (question, url) => {
    const found = search(question).slice(0, 3);
    expect(found.map((result) => result.url)).toContain(url);
  });

  it("what has the most words of the query goes first, and an unknown word finds nothing", () => {
    expect(search("standby pg_promote unicorn")[0]?.url).toBe("/docs/operating#fail-over-to-a-standby");
    expect(search("unicorn")).toEqual([]);
  });
});

describe("the files of the pages", () => {
  const files = async () => {
    const page = await text("/docs/reference");
    const paths = [...page.matchAll(/\/docs\/[0-9a-f]{16}\/[\w.-]+/g)].map(([path]) => path);
    expect(paths).toHaveLength(5);
    return paths;
  };

  it("the files of the pages can be cached for a year, at URLs that contain a hash", async () => {
    for (const path of await files()) {
      const answer = await get(path);
      expect(answer.status, path).toBe(200);
      expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    }
  });

  it("pages and files are compressed only for clients that accept gzip", async () => {
    for (const path of ["/docs/reference", ...(await files())]) {
      const compressed = await get(path, { "Accept-Encoding": "gzip, br" });
      const plain = await get(path, { "Accept-Encoding": "identity" });
      expect(compressed.headers.get("content-encoding")).toBe("gzip");
      expect(plain.headers.get("content-encoding")).toBeNull();
      expect(plain.headers.get("vary")).toBe("Accept-Encoding");
      expect(await compressed.text()).toBe(await plain.text());
    }
  });
});
