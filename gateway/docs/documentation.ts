import { type RequestHandler, Router } from "express";
import { serveAt } from "../http/read-only-route.js";
import { buildDocument, printDocument } from "../openapi/document.js";
import { VERSION } from "../openapi/version.js";
import { type Asset, fileAsset, sendAsset, textAsset, viewerAsset } from "./assets.js";
import { PAGE_POLICY, page } from "./page.js";

const REVALIDATE = { "Cache-Control": "no-cache" };
const KEEP = { "Cache-Control": "public, max-age=31536000, immutable" };

/** `GET /openapi.json` (the document, built once) and `GET /docs` (the reference page) with its files. */
export function documentation(): RequestHandler {
  const router = Router({ caseSensitive: true, strict: true });
  const file = (name: string, asset: Asset) => {
    const path = `/docs/${asset.hash}/${name}`;
    serveAt(router, path, sendAsset(asset, KEEP));
    return path;
  };
  const html = page("guest-forms API reference", {
    viewer: file("viewer.js", viewerAsset()),
    start: file("start.js", fileAsset("js", "start.js")),
    style: file("style.css", fileAsset("css", "style.css")),
  });
  const headers = { ...REVALIDATE, "Content-Security-Policy": PAGE_POLICY };
  serveAt(router, "/docs", sendAsset(textAsset("html", html), headers));
  serveAt(router, "/docs/", (_req, res) => res.redirect(308, "/docs"));
  const document = printDocument(buildDocument(VERSION));
  serveAt(router, "/openapi.json", sendAsset(textAsset("json", document), REVALIDATE));
  return router;
}
