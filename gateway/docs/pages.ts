import { readdirSync, readFileSync } from "node:fs";
import { basename, join, posix } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { ERRORS } from "../../server/errors.js";
import { type OpenApiDocument, operationsOf } from "../openapi/read.js";
import { type Html, html } from "./html.js";
import { NOT_FOUND, type Page, REFERENCE } from "./layout.js";
import { createMarkdown, type Markdown } from "./markdown.js";
import { buildReference } from "./reference.js";

/** Every page, in the order of the navigation. */
export function buildPages(document: OpenApiDocument, introduction: string): Page[] {
  const markdown = createMarkdown(linksOf(document));
  const [guides, contract, others] = SOURCES.map((source) => readPages(markdown, source)) as [Page[], Page[], Page[]];
  const { summary } = document.info;
  return [
    {
      path: "/docs",
      group: "Guides",
      title: "Overview",
      summary,
      content: overview(document, guides, markdown.page(introduction)),
    },
    ...guides,
    {
      path: REFERENCE,
      group: "Reference",
      title: "API reference",
      summary: "Every operation with its parameters, responses and errors.",
      content: buildReference(document, markdown),
    },
    ...contract,
    ...others,
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

interface Source {
  group: string;
  /** Markdown files of this repository. */
  files: string[];
}

const GUIDES = "gateway/docs/guides";

const SOURCES: Source[] = [
  {
    group: "Guides",
    files: [
      ...readdirSync(join(packageRoot(), GUIDES))
        .filter((name) => name.endsWith(".md"))
        .sort()
        .map((name) => `${GUIDES}/${name}`),
      "sdk/README.md",
      "gateway/docs/guest-page.md",
    ],
  },
  { group: "Reference", files: ["gateway/docs/contract.md"] },
  {
    group: "Operating",
    files: ["operating", "metrics", "alerts", "internal-tools"].map((name) => `gateway/docs/${name}.md`),
  },
];

const pathOf = (file: string) =>
  file === "sdk/README.md" ? "/docs/sdk" : `/docs/${basename(file, ".md").replace(/^\d+-/, "")}`;

/** Links for inline code: an error code to its section, an operation to its reference. */
function linksOf(document: OpenApiDocument): Map<string, string> {
  const codes = Object.keys(ERRORS).map((code) => [code, `/docs/errors#${code.toLowerCase()}`] as const);
  const endpoints = operationsOf(document).map(
    ({ method, path, operation }) => [`${method} ${path}`, `${REFERENCE}#${operation.operationId}`] as const,
  );
  return new Map([...codes, ...endpoints]);
}

function readPages(markdown: Markdown, { group, files }: Source): Page[] {
  return files.map((file) => {
    const source = readFileSync(join(packageRoot(), file), "utf8");
    const [heading = "", summary = ""] = source.split(/\n{2,}/);
    return {
      path: pathOf(file),
      group,
      title: TITLES[file] ?? heading.replace("# ", ""),
      summary: summary.replaceAll("\n", " ").replace(/\[([^\]]+)\]\([^)]*\)|`/g, "$1"),
      content: markdown.page(linkPages(file, source, "")),
      markdown: linkPages(file, source, ".md"),
    };
  });
}

/** Titles that say less on the first line of their file. */
const TITLES: Record<string, string> = {
  "sdk/README.md": "TypeScript SDK",
  "gateway/docs/operating.md": "Operating",
};

/**
 * Turns links between the Markdown files into links between pages, or with the suffix `.md` between their sources. A link to a file
 * that has no page becomes its text.
 */
const linkPages = (file: string, source: string, suffix: "" | ".md"): string =>
  source.replace(/\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)/g, (_, text, target, anchor = "") => {
    const linked = posix.join(posix.dirname(file), target);
    const hasPage = SOURCES.some(({ files }) => files.includes(linked));
    return hasPage ? `[${text}](${pathOf(linked)}${suffix}${anchor})` : text;
  });

const overview = (document: OpenApiDocument, guides: readonly Page[], introduction: Html): Html => html`
<h1>${document.info.title}</h1>
<p>${document.info.summary}</p>
${introduction}
<h2 id="guides"><a href="#guides">Guides</a></h2>
<ul>${guides.map(({ path, title, summary }) => html`<li><a href="${path}">${title}</a><br>${summary}</li>`)}</ul>
<h2 id="operations"><a href="#operations">Operations</a></h2>
<div class="table" role="group" aria-label="Operations" tabindex="0"><table><thead><tr><th>operation</th><th>request</th></tr></thead><tbody>${operationsOf(
  document,
).map(
  ({ method, path, title, operation }) => html`
<tr><td><a href="${REFERENCE}#${operation.operationId}">${title}</a></td><td><code>${method} ${path}</code></td></tr>`,
)}</tbody></table></div>
<p>For tools: the <a href="/openapi.json">OpenAPI document</a>, and <a href="/llms.txt">llms.txt</a>, which lists the guides
as Markdown.</p>`;
