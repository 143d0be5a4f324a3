import { describe, expect, it } from "vitest";
import { OPERATIONS } from "../../gateway/operations/operations.js";
import { startTestGateway } from "../support/gateway.js";
import { exchange } from "../support/http-client.js";
import { DOCS_PAGES, MARKDOWN_PAGES } from "./docs-pages.js";

const PUBLIC_URL = "https://forms.example.com";
const MARKDOWN = ["/llms.txt", ...MARKDOWN_PAGES.map((path) => `${path}.md`)];

const gateway = await startTestGateway({ PUBLIC_URL });
const relative = await startTestGateway();

async function read(path: string, { port } = gateway, host = "127.0.0.1"): Promise<string> {
  const { status, text } = await exchange({ port, path, headers: { Host: host } }, [], 15_000);
  expect(status, path).toBe(200);
  return text;
}

const serversOf = (document: string) => JSON.parse(document).servers.map(({ url }: { url: string }) => url);
const linksIn = (markdown: string) => [...markdown.matchAll(/\]\(([^)]+)\)/g)].map(([, link = ""]) => link);

describe("PUBLIC_URL", () => {
  it("is the server of the OpenAPI document and the base of all links in Markdown, whatever the Host header", async () => {
    expect(serversOf(await read("/openapi.json", gateway, "attacker.example"))).toEqual([PUBLIC_URL]);
    for (const path of MARKDOWN) {
      const text = await read(path, gateway, "attacker.example");
      expect(text).not.toContain("attacker");
      for (const link of linksIn(text)) expect(link, path).toMatch(/^https:\/\/|^#/);
    }
    expect(linksIn(await read("/llms.txt"))).toContain(`${PUBLIC_URL}/docs/first-request.md`);
    expect(await read("/llms.txt")).toContain(`Base URL: \`${PUBLIC_URL}\``);
  });

  it("is not in the pages, whose links lead to the server that they came from", async () => {
    for (const path of DOCS_PAGES) expect(await read(path), path).not.toContain(`href="${PUBLIC_URL}`);
  });

  it("unset leaves addresses relative, whatever the Host header", async () => {
    for (const host of ["attacker.example", "127.0.0.1"]) {
      expect(serversOf(await read("/openapi.json", relative, host))).toEqual(["/"]);
      const text = await read("/llms.txt", relative, host);
      expect(text).toContain("Base URL: `/`");
      for (const link of linksIn(text)) expect(link).toMatch(/^\/[a-z]/);
    }
  });
});

describe("/llms.txt", async () => {
  const [head = "", ...sections] = (await read("/llms.txt")).split(/^## /m);
  const section = (name: string) => sections.find((text) => text.startsWith(`${name}\n`)) ?? "";

  it("begins with the essentials: the base URL, the key, every operation, errors, retries and where to start", () => {
    for (const { method, path } of OPERATIONS) expect(head).toContain(`\`${method} ${path}\``);
    for (const fact of ["Essentials:", "Base URL:", "`Authorization: Bearer grf_…`", "`externalId`", "idempotent"]) {
      expect(head).toContain(fact);
    }
    expect(head).toContain("Branch on `code`");
    expect(head).toContain(`[First request](${PUBLIC_URL}/docs/first-request.md)`);
  });

  it("lists every page once, with one sentence or two, and those for operators as optional", () => {
    const names = (text: string) => linksIn(text).map((link) => link.replace(`${PUBLIC_URL}/docs/`, ""));
    expect(names(section("Optional"))).toEqual([
      "operating.md",
      "metrics.md",
      "alerts.md",
      "before-you-send.md",
      "outgrow.md",
      "internal-tools.md",
    ]);
    const listed = sections.flatMap(linksIn).filter((link) => link.endsWith(".md"));
    expect(listed.sort()).toEqual(MARKDOWN_PAGES.map((path) => `${PUBLIC_URL}${path}.md`).sort());
    for (const line of sections.flatMap((text) => text.match(/^- .*$/gm) ?? [])) {
      expect(line).toMatch(/^- \[[^\]]+\]\(\S+\): .{15,}\.$/);
      expect(line).not.toMatch(/\. .*\. /);
    }
  });
});

describe("the reference", () => {
  it("is linked from the guides, and from their Markdown as the OpenAPI document", async () => {
    expect(await read("/docs/concepts")).toContain('href="/docs/reference#FormV1"');
    expect(await read("/docs/webhooks")).toContain('href="/docs/reference#form.created"');
    for (const name of ["concepts", "first-request", "errors"]) {
      expect(await read(`/docs/${name}.md`), name).toContain(`[reference](${PUBLIC_URL}/openapi.json)`);
    }
  });

  it("marks of generated parts are not in the Markdown", async () => {
    for (const path of MARKDOWN) expect(await read(path), path).not.toContain("<!--");
  });
});
