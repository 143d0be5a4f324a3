import { readdirSync, readFileSync } from "node:fs";
import { basename, join, posix } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { ERRORS } from "../../server/errors.js";
import { type OpenApiDocument, operationsOf } from "../openapi/read.js";
import { type Html, html } from "./html.js";
import { NOT_FOUND, type Page, REFERENCE } from "./layout.js";
import { createMarkdown, heading, type Markdown, table } from "./markdown.js";
import { buildReference } from "./reference.js";

/** Every page, in the order of the navigation. */
export function buildPages(document: OpenApiDocument, introduction: string): Page[] {
  const markdown = createMarkdown(linksOf(document));
  const { summary } = document.info;
  const [guides = [], contract = [], operating = []] = Object.entries(FILES).map(([group, files]) =>
    files.map((file) => readPage(markdown, group, file)),
  );
  const content = buildOverview(document, guides, markdown.page(introduction));
  return [
    { path: "/docs", group: "Guides", title: "Overview", summary, content },
    ...guides,
    {
      path: REFERENCE,
      group: "Reference",
      title: "API reference",
      summary: "Every operation with its parameters, responses and errors.",
      content: buildReference(document, markdown),
    },
    ...contract,
    ...operating,
  ];
}

/** The page of every other path below `/docs`, for browsers. It is not in the navigation. */
export const notFoundPage: Page = {
  path: NOT_FOUND,
  group: "",
  title: "This page does not exist",
  summary: "Search the documentation, or choose a page.",
  content: html`<h1>This page does not exist</h1>
<p>Search the documentation, or choose a page from the navigation.</p>`,
};

const FOLDER = "gateway/docs";
const GUIDES = readdirSync(join(packageRoot(), FOLDER, "guides")).filter((name) => name.endsWith(".md"));

/** Markdown files of this repository, by their heading in the navigation. */
const FILES: Record<string, string[]> = {
  Guides: [...GUIDES.sort().map((name) => `${FOLDER}/guides/${name}`), "sdk/README.md", `${FOLDER}/guest-page.md`],
  Reference: [`${FOLDER}/contract.md`],
  Operating: ["operating", "metrics", "alerts", "before-you-send", "outgrow", "internal-tools"].map(
    (name) => `${FOLDER}/${name}.md`,
  ),
};

const pathOf = (file: string) =>
  file === "sdk/README.md" ? "/docs/sdk" : `/docs/${basename(file, ".md").replace(/^\d+-/, "")}`;

/** Links for inline code: an error code to its section, an operation to its reference. */
const linksOf = (document: OpenApiDocument) =>
  new Map([
    ...Object.keys(ERRORS).map((code) => [code, `/docs/errors#${code.toLowerCase()}`] as const),
    ...operationsOf(document).map(
      ({ method, path, operation }) => [`${method} ${path}`, `${REFERENCE}#${operation.operationId}`] as const,
    ),
  ]);

function readPage(markdown: Markdown, group: string, file: string): Page {
  const source = readFileSync(join(packageRoot(), file), "utf8");
  const [title = "", summary = ""] = source.split(/\n{2,}/);
  return {
    path: pathOf(file),
    group,
    title: TITLES[file] ?? title.replace("# ", ""),
    summary: summary.replaceAll("\n", " ").replace(/\[([^\]]+)\]\([^)]*\)|`/g, "$1"),
    content: markdown.page(linkPages(file, source, "")),
    // Without the marks of generated parts.
    markdown: linkPages(file, source, ".md").replace(/^<!-- .* -->\n\n?/gm, ""),
  };
}

/** Titles that say less on the first line of their file. */
const TITLES: Record<string, string> = {
  "sdk/README.md": "TypeScript SDK",
  "gateway/docs/operating.md": "Operating",
};

/**
 * Turns links between the Markdown files into links between pages, or with the suffix `.md` between their sources, which have the
 * OpenAPI document as the reference. A link to a file that has no page becomes its text.
 */
const linkPages = (file: string, source: string, suffix: "" | ".md"): string =>
  source.replace(/\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)/g, (link, text, target, anchor = "") => {
    if (target.startsWith("/")) return suffix && target === REFERENCE ? `[${text}](/openapi.json)` : link;
    const linked = posix.join(posix.dirname(file), target);
    const hasPage = Object.values(FILES).flat().includes(linked);
    return hasPage ? `[${text}](${pathOf(linked)}${suffix}${anchor})` : text;
  });

function buildOverview(document: OpenApiDocument, guides: readonly Page[], introduction: Html): Html {
  const rows = operationsOf(document).map(({ method, path, title, operation }) => [
    html`<a href="${REFERENCE}#${operation.operationId}">${title}</a>`,
    html`<code>${method} ${path}</code>`,
  ]);
  return html`
<h1>${document.info.title}</h1>
<p>${document.info.summary}</p>
${introduction}
${heading(2, "guides", "Guides")}
<ul>${guides.map(({ path, title, summary }) => html`<li><a href="${path}">${title}</a><br>${summary}</li>`)}</ul>
${heading(2, "operations", "Operations")}
${table("Operations", [html`operation`, html`request`], rows)}
<p>For tools: the <a href="/openapi.json">OpenAPI document</a>, and <a href="/llms.txt">llms.txt</a>, which lists the guides
as Markdown.</p>`;
}
