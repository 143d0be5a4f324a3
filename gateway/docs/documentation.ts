import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { type RequestHandler, Router } from "express";
import { packageRoot } from "../../prisma/package-root.js";
import { notFound } from "../../server/errors.js";
import { serveAt } from "../http/methods.js";
import { buildDocument, printDocument } from "../openapi/document.js";
import { PROSE } from "../openapi/parts.js";
import type { OpenApiDocument } from "../openapi/read.js";
import { PACKAGE } from "../process/package.js";
import { layout, PAGE_POLICY, type Page, type Site } from "./layout.js";
import { buildPages } from "./pages.js";

const REVALIDATE = { "Cache-Control": "no-cache" };
const IMMUTABLE = { "Cache-Control": "public, max-age=31536000, immutable" };
const PAGE_HEADERS = { ...REVALIDATE, "Content-Security-Policy": PAGE_POLICY };

/** Serves `/docs` and the pages below it, `/llms.txt` and `/openapi.json`. Everything is built once, at the start. */
export function documentation(): RequestHandler {
  const router = Router({ caseSensitive: true, strict: true });
  const printed = printDocument(buildDocument(PACKAGE.version));
  const document: OpenApiDocument = JSON.parse(printed);
  const pages = buildPages(document, PROSE);
  const index = textAsset("json", JSON.stringify(searchIndex(pages)));
  const files = serveFiles(router, { ...browserFiles(), "search.json": index });
  const site: Site = { title: document.info.title, version: document.info.version, pages, files };
  for (const page of pages) {
    serveAt(router, page.path, sendAsset(textAsset("html", layout(site, page).text), PAGE_HEADERS));
    serveAt(router, `${page.path}/`, (_req, res) => res.redirect(308, page.path));
    if (page.markdown) serveAt(router, `${page.path}.md`, sendAsset(textAsset("md", page.markdown), REVALIDATE));
  }
  serveAt(router, "/llms.txt", sendAsset(textAsset("txt", llmsText(document, PROSE, pages)), REVALIDATE));
  serveAt(router, "/openapi.json", sendAsset(textAsset("json", printed), REVALIDATE));
  serveAt(router, "/", redirectBrowsers);
  return router;
}

/** Serves files in a folder named after a hash of them, so caches can keep them forever. Returns the folder. */
function serveFiles(router: Router, files: Record<string, Asset>): string {
  const hash = createHash("sha256");
  for (const { gzipped } of Object.values(files)) hash.update(gzipped);
  const folder = `/docs/${hash.digest("hex").slice(0, 16)}`;
  for (const [name, asset] of Object.entries(files)) serveAt(router, `${folder}/${name}`, sendAsset(asset, IMMUTABLE));
  return folder;
}

/** A file that never changes while the process runs. */
type Asset = ReturnType<typeof textAsset>;

const TYPES = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  json: "application/json",
  md: "text/markdown",
  txt: "text/plain",
} as const;

const textAsset = (type: keyof typeof TYPES, text: string) => ({
  type: `${TYPES[type]}; charset=utf-8`,
  plain: Buffer.from(text),
  gzipped: gzipSync(text),
});

/** The scripts and styles of the pages, by name. */
function browserFiles(): Record<string, Asset> {
  const folder = join(packageRoot(), "gateway", "docs", "browser");
  const names = readdirSync(folder).sort();
  return Object.fromEntries(
    names.map((name) => [
      name,
      textAsset(extname(name) === ".css" ? "css" : "js", readFileSync(join(folder, name), "utf8")),
    ]),
  );
}

/** Sends the asset, compressed if the client accepts that. */
const sendAsset =
  ({ type, plain, gzipped }: Asset, headers: Record<string, string>): RequestHandler =>
  (req, res) => {
    const isCompressed = req.acceptsEncodings("gzip") === "gzip";
    const bytes = isCompressed ? gzipped : plain;
    res.set({
      ...headers,
      "Content-Type": type,
      "Content-Length": String(bytes.length),
      Vary: "Accept-Encoding",
      ...(isCompressed && { "Content-Encoding": "gzip" }),
    });
    res.end(bytes);
  };

/** Redirects browsers, which name HTML in `Accept`. For other clients `/` is an unknown path. */
const redirectBrowsers: RequestHandler = (req, res) => {
  res.vary("Accept");
  if (req.accepts(["json", "html"]) !== "html") throw notFound();
  res.redirect(302, "/docs");
};

/** The search index: every heading of every page, with the text below it (browser/search.js). */
const searchIndex = (pages: readonly Page[]) =>
  pages.flatMap(({ path, title: page, sections }) =>
    sections.map(({ id, title, text }) => ({ url: id ? `${path}#${id}` : path, page, title, text })),
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
