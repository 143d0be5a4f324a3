import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { ERRORS } from "../../server/errors.js";
import { type OpenApiDocument, operationsOf } from "../openapi/read.js";
import { type Html, html } from "./html.js";
import { type Page, REFERENCE } from "./layout.js";
import { createMarkdown, type Markdown } from "./markdown.js";
import { buildReference } from "./reference.js";

/** Every page, in the order of the navigation. */
export function buildPages(document: OpenApiDocument, introduction: string): Page[] {
  const markdown = createMarkdown(linksOf(document));
  const guides = readGuides(markdown);
  const { summary } = document.info;
  return [
    {
      path: "/docs",
      title: "Overview",
      summary,
      content: overview(document, guides, markdown.page(introduction).content),
      sections: [{ id: "", title: "Overview", level: 1, text: `${summary} ${introduction}` }],
    },
    ...guides,
    {
      path: REFERENCE,
      title: "API reference",
      summary: "Every operation with its parameters, responses and errors.",
      ...buildReference(document, markdown),
    },
  ];
}

/** Links for inline code: an error code to its section, an operation to its reference. */
function linksOf(document: OpenApiDocument): Map<string, string> {
  const codes = Object.keys(ERRORS).map((code) => [code, `/docs/errors#${code.toLowerCase()}`] as const);
  const endpoints = operationsOf(document).map(
    ({ method, path, operation }) => [`${method} ${path}`, `${REFERENCE}#${operation.operationId}`] as const,
  );
  return new Map([...codes, ...endpoints]);
}

/** The guides, in the order of their file names, and the contract. */
function readGuides(markdown: Markdown): Page[] {
  const folder = join(packageRoot(), "gateway", "docs");
  const names = readdirSync(join(folder, "guides")).filter((name) => name.endsWith(".md"));
  return [...names.sort().map((name) => `guides/${name}`), "contract.md"].map((file) => {
    const source = readFileSync(join(folder, file), "utf8");
    const [heading = "", summary = ""] = source.split(/\n{2,}/);
    return {
      path: `/docs/${basename(file, ".md").replace(/^\d+-/, "")}`,
      title: heading.replace("# ", ""),
      // The first paragraph is one sentence.
      summary: summary.replaceAll("\n", " "),
      ...markdown.page(linkPages(source, "")),
      markdown: linkPages(source, ".md"),
    };
  });
}

/** Turns links between the Markdown files into links between pages, or with the suffix `.md` between their sources. */
const linkPages = (source: string, suffix: "" | ".md"): string =>
  source.replace(/\]\((?:\.\.\/)?(?:\d+-)?([\w-]+)\.md/g, `](/docs/$1${suffix}`);

const overview = (document: OpenApiDocument, guides: readonly Page[], introduction: Html): Html => html`
<h1>${document.info.title}</h1>
<p class="lead">${document.info.summary}</p>
${introduction}
<h2 id="guides"><a href="#guides">Guides</a></h2>
<ul class="cards">${guides.map(
  ({ path, title, summary }) => html`<li><a href="${path}">${title}</a><p>${summary}</p></li>`,
)}</ul>
<h2 id="operations"><a href="#operations">Operations</a></h2>
<div class="table"><table><thead><tr><th>operation</th><th>request</th></tr></thead><tbody>${operationsOf(document).map(
  ({ method, path, title, operation }) => html`
<tr><td><a href="${REFERENCE}#${operation.operationId}">${title}</a></td><td><code>${method} ${path}</code></td></tr>`,
)}</tbody></table></div>
<p>For tools: the <a href="/openapi.json">OpenAPI document</a>, and <a href="/llms.txt">llms.txt</a>, which lists the guides
as Markdown.</p>`;
