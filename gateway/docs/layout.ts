import { type Html, html, sectionsOf } from "./html.js";

/** Only resources of this server. No inline script or style, no eval. */
export const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export interface Page {
  path: string;
  /** Heading in the navigation. */
  group: string;
  title: string;
  summary: string;
  content: Html;
  /** The Markdown that the page was made from. */
  markdown?: string;
}

/** What all pages share. */
export interface Site {
  title: string;
  version: string;
  pages: readonly Page[];
  /** Folder of the scripts and styles. */
  files: string;
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' " +
  "height='32' rx='7' fill='%230f766e'/%3E%3Cpath d='M9 10h14M9 16h14M9 22h8' stroke='%23fff' stroke-width='2.6' " +
  "stroke-linecap='round'/%3E%3C/svg%3E";

/** A whole HTML page. */
export const layout = (site: Site, page: Page): Html => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${page.title} · ${site.title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="${page.summary}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="${site.files}/page.css">
${page.path === REFERENCE && html`<link rel="stylesheet" href="${site.files}/reference.css">`}
${page.markdown !== undefined && html`<link rel="alternate" type="text/markdown" href="${page.path}.md">`}
<script type="module" src="${site.files}/page.js"></script>
${page.path === REFERENCE && html`<script type="module" src="${site.files}/try-it.js"></script>`}
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<button class="menu" popovertarget="pages" aria-label="Menu">☰</button>
<a class="brand" href="/docs"><img src="${ICON}" alt="" width="22" height="22"> ${site.title}</a>
<search><input id="search" type="search" placeholder="Search" aria-label="Search the documentation" autocomplete="off"
data-index="${site.files}/search.json"><p id="found" role="status"></p><div id="results" hidden></div></search>
<a class="document" href="/openapi.json">OpenAPI</a>
<span class="version">v${site.version}</span>
</header>
<nav id="pages" popover aria-label="Pages">${navigation(site, page)}</nav>
<main id="content" tabindex="-1"${page.path === REFERENCE && html` class="reference"`}>
${page.content}
${pageFooter(site, page)}
</main>
</body>
</html>
`;

export const REFERENCE = "/docs/reference";

/** The page for unknown paths below `/docs`. */
export const NOT_FOUND = "/docs/not-found";

const navigation = ({ pages }: Site, page: Page): Html[] =>
  pages.map(
    (entry, index) => html`${entry.group !== pages[index - 1]?.group && html`<p>${entry.group}</p>`}
${navigationEntry(entry, page)}`,
  );

/** A link to the page and, of the current page and the reference, links to its headings. */
function navigationEntry({ path, title, content }: Page, current: Page): Html {
  const maxLevel = path === REFERENCE ? 3 : 2;
  const headings = sectionsOf(content).filter(({ level }) => level > 1 && level <= maxLevel);
  return html`
<a href="${path}"${path === current.path && html` aria-current="page"`}>${title}</a>${
    (path === REFERENCE || path === current.path) &&
    html`<ul>${headings.map(
      ({ id, title, level }) => html`<li class="level-${level}"><a href="${path}#${id}">${title}</a></li>`,
    )}</ul>`
  }`;
}

/** Links to the previous page, the next page and the Markdown. */
function pageFooter({ pages }: Site, { path, markdown }: Page): Html {
  const index = pages.findIndex((page) => page.path === path);
  const before = index > 0 && pages[index - 1];
  const after = pages[index + 1];
  return html`<footer>
${before && html`<a href="${before.path}" rel="prev">← ${before.title}</a>`}
${markdown !== undefined && html`<a href="${path}.md">View as Markdown</a>`}
${after && html`<a href="${after.path}" rel="next">${after.title} →</a>`}
</footer>`;
}
