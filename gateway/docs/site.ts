import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { buildDocument, printDocument } from "../openapi/document.js";
import { PROSE } from "../openapi/parts.js";
import type { OpenApiDocument } from "../openapi/read.js";
import { PACKAGE } from "../runtime/package.js";
import { layout, type Page, type Site } from "./layout.js";
import { buildPages, notFoundPage } from "./pages.js";
import { sectionsOf } from "./sections.js";

/** A file of the documentation. */
export interface SiteFile {
  path: string;
  type: (typeof TYPES)[keyof typeof TYPES];
  /** Whether its path changes with its text, so that caches can keep it. */
  isImmutable?: boolean;
  text: string;
}

const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".md": "text/markdown",
  ".txt": "text/plain",
} as const;

/** `/docs` and the pages below it, with their sources and scripts, `/llms.txt` and `/openapi.json`. `npm run build` calls it. */
export function buildSite(): SiteFile[] {
  const printed = printDocument(buildDocument(PACKAGE.version));
  const document: OpenApiDocument = JSON.parse(printed);
  const pages = buildPages(document, PROSE);
  const { folder, files } = putInHashedFolder({ ...browserFiles(), "search.json": JSON.stringify(searchIndex(pages)) });
  const site: Site = { title: document.info.title, version: document.info.version, pages, files: folder };
  return [
    ...files,
    ...[...pages, notFoundPage].map(
      (page): SiteFile => ({ path: page.path, type: "text/html", text: layout(site, page).text }),
    ),
    ...pages.flatMap(({ path, markdown }) => (markdown ? makeFile(`${path}.md`, markdown) : [])),
    makeFile("/llms.txt", llmsText(document, PROSE, pages)),
    makeFile("/openapi.json", printed),
  ];
}

function makeFile(path: string, text: string): SiteFile {
  const type = TYPES[extname(path) as keyof typeof TYPES];
  if (!type) throw new Error(`${path} has no known type`);
  return { path, type, text };
}

/** Puts files in a folder named after a hash of them. */
function putInHashedFolder(texts: Record<string, string>): { folder: string; files: SiteFile[] } {
  const hash = createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 16);
  const folder = `/docs/${hash}`;
  const files = Object.entries(texts).map(([name, text]) => ({
    ...makeFile(`${folder}/${name}`, text),
    isImmutable: true,
  }));
  return { folder, files };
}

/** The scripts, as `npm run build` has bundled them, and styles of the pages, by name. */
function browserFiles(): Record<string, string> {
  const read = (path: string) => readFileSync(join(packageRoot(), path), "utf8");
  const scripts = readdirSync(join(packageRoot(), SCRIPTS)).sort();
  return {
    "page.css": read("gateway/docs/browser/page.css"),
    "reference.css": read("gateway/docs/browser/reference.css"),
    ...Object.fromEntries(scripts.map((name) => [name, read(`${SCRIPTS}/${name}`)])),
  };
}

const SCRIPTS = "dist/tools/browser";

/** The search index: every heading of every page, with the text below it (browser/search.js). */
const searchIndex = (pages: readonly Page[]) =>
  pages.flatMap(({ path, title: page, content }) =>
    sectionsOf(content).map(({ id, title, text }) => ({ url: id ? `${path}#${id}` : path, page, title, text })),
  );

/** `/llms.txt` (https://llmstxt.org): the documentation for language models. */
const llmsText = ({ info }: OpenApiDocument, introduction: string, pages: readonly Page[]): string =>
  `# ${info.title}

> ${info.summary}

${introduction}

## Guides

${pages
  .filter(({ markdown }) => markdown !== undefined)
  .map(({ path, title, summary }) => `- [${title}](${path}.md): ${summary}`)
  .join("\n")}

## Reference

- [OpenAPI document](/openapi.json): every operation with its parameters, responses, errors and code samples.
`;
