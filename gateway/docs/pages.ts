import { ERRORS } from "../../server/errors.js";
import { type Guide, linkPages, readGuides } from "./guides.js";
import { type Html, html } from "./html.js";
import { type Page, REFERENCE } from "./layout.js";
import { createMarkdown, type Markdown } from "./markdown.js";
import { type OpenApiDocument, operationsOf } from "./openapi-types.js";
import { buildReference } from "./reference.js";

/** Every page, in the order of the navigation. */
export function buildPages(document: OpenApiDocument, introduction: string): Page[] {
  const markdown = createMarkdown(linksOf(document));
  const guides = readGuides();
  const { summary } = document.info;
  return [
    {
      path: "/docs",
      title: "Overview",
      summary,
      content: overview(document, guides, markdown.page(introduction).content),
      sections: [{ id: "", title: "Overview", level: 1, text: `${summary} ${introduction}` }],
    },
    ...guides.map((guide) => guidePage(guide, markdown)),
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

const guidePage = ({ path, title, summary, source }: Guide, markdown: Markdown): Page => ({
  path,
  title,
  summary,
  ...markdown.page(linkPages(source, "")),
  markdown: linkPages(source, ".md"),
});

const overview = (document: OpenApiDocument, guides: readonly Guide[], introduction: Html): Html => html`
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
