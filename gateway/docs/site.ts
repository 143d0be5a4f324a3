import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import type { TextFile } from "../http/files.js";
import { buildDocument, printDocument } from "../openapi/document.js";
import { PROSE } from "../openapi/parts.js";
import { type OpenApiDocument, operationsOf } from "../openapi/read.js";
import { PACKAGE } from "../runtime/package.js";
import { sectionsOf } from "./html.js";
import { layout, type Page, type Site } from "./layout.js";
import { buildPages, notFoundPage } from "./pages.js";

/** A file of the documentation. */
export interface SiteFile extends TextFile {
  path: string;
}

const TYPES: Record<string, string> = {
  ".css": "text/css",
  ".js": "text/javascript",
  ".json": "application/json",
  ".md": "text/markdown",
  ".txt": "text/plain",
};

/** `/docs` and the pages below it, with their sources and scripts, `/llms.txt` and `/openapi.json`. `npm run build` calls it. */
export function buildSite(): SiteFile[] {
  const printed = printDocument(buildDocument(PACKAGE.version));
  const document: OpenApiDocument = JSON.parse(printed);
  const pages = buildPages(document, PROSE);
  const texts = { ...browserFiles(), "search.json": JSON.stringify(searchIndex(pages)) };
  const hash = createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 16);
  const site: Site = { ...document.info, pages, files: `/docs/${hash}` };
  const makePage = (page: Page): SiteFile => ({ path: page.path, type: "text/html", text: layout(site, page).text });
  return [
    ...Object.entries(texts).map(([name, text]) => ({ ...makeFile(`${site.files}/${name}`, text), isImmutable: true })),
    ...pages.map(makePage),
    ...pages.flatMap(({ path, markdown }) => (markdown ? makeFile(`${path}.md`, markdown) : [])),
    makeFile("/llms.txt", llmsText(document, PROSE, pages)),
    makeFile("/openapi.json", printed),
    // Last, because it is the answer for every other path.
    makePage(notFoundPage),
  ];
}

function makeFile(path: string, text: string): SiteFile {
  const type = TYPES[extname(path)];
  if (!type) throw new Error(`${path} has no known type`);
  return { path, type, text };
}

/** The styles of the pages and the scripts, as `npm run build` has bundled them, by name. */
function browserFiles(): Record<string, string> {
  const scripts = readdirSync(join(packageRoot(), SCRIPTS)).sort();
  return Object.fromEntries(
    [...STYLES, ...scripts.map((name) => `${SCRIPTS}/${name}`)].map((path) => [
      basename(path),
      readFileSync(join(packageRoot(), path), "utf8"),
    ]),
  );
}

const STYLES = ["gateway/docs/browser/page.css", "gateway/docs/browser/reference.css"];
const SCRIPTS = "dist/tools/browser";

/** The search index: every heading of every page, with the text below it (browser/search.js). */
const searchIndex = (pages: readonly Page[]) =>
  pages.flatMap(({ path, title: page, content }) =>
    sectionsOf(content).map(({ id, title, text }) => ({ url: id ? `${path}#${id}` : path, page, title, text })),
  );

/** `/llms.txt` (https://llmstxt.org): the documentation for language models. Agents may skip what is optional. */
function llmsText(document: OpenApiDocument, introduction: string, pages: readonly Page[]): string {
  const { title, summary } = document.info;
  const operations = operationsOf(document).map((operation) => `\`${operation.method} ${operation.path}\``);
  const listOf = (group: string) =>
    pages
      .filter((page) => page.markdown !== undefined && page.group === group)
      .map((page) => `- [${page.title}](${page.path}.md): ${page.summary}`)
      .join("\n");
  return `# ${title}

> ${summary}

Essentials:

- Base URL: \`/\`
- Send the key with every request, as \`Authorization: Bearer grf_…\`. Bodies are JSON.
- Operations: ${operations.join(", ")}.
- Send each booking's own id as \`externalId\` of its create: two creates with equal bodies are one form.
${introduction.replaceAll("**", "")}
- Start with [First request](/docs/first-request.md). [Recipes](/docs/recipes.md) has complete programs.

## Guides

${listOf("Guides")}

## Reference

${listOf("Reference")}
- [OpenAPI document](/openapi.json): every operation with its parameters, responses, errors and code samples.

## Optional

${listOf("Operating")}
`;
}
