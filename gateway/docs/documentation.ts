import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type RequestHandler, Router } from "express";
import { packageRoot } from "../../prisma/package-root.js";
import { notFound } from "../../server/errors.js";
import { sendFile } from "../http/files.js";
import { serveAt } from "../http/methods.js";
import { NOT_FOUND, PAGE_POLICY } from "./layout.js";
import type { SiteFile } from "./site.js";

/** Serves the files that `npm run build` has written to `dist/site.json`. */
export function documentation(): RequestHandler {
  const router = Router({ caseSensitive: true, strict: true });
  const files: SiteFile[] = JSON.parse(readFileSync(join(packageRoot(), "dist/site.json"), "utf8"));
  for (const { path, ...file } of files) {
    if (path === NOT_FOUND) continue;
    serveAt(router, path, send(file));
    if (file.type === "text/html") serveAt(router, `${path}/`, (_req, res) => res.redirect(308, path));
  }
  serveAt(router, "/docs/sdk.tgz", sendSdk());
  for (const { path, ...file } of files) if (path === NOT_FOUND) router.get(/^\/docs\//, answerBrowsers(send(file)));
  serveAt(router, "/", redirectBrowsers);
  return router;
}

/** Sends the SDK, as `npm run build` has packed it. */
function sendSdk(): RequestHandler {
  const bytes = readFileSync(join(packageRoot(), "dist/sdk.tgz"));
  return (_req, res) => {
    res.set({
      "Content-Type": "application/gzip",
      "Cache-Control": "no-cache",
      "Content-Length": String(bytes.length),
    });
    res.end(bytes);
  };
}

/** Sends the file; pages with their policy. */
const send = (file: Omit<SiteFile, "path">): RequestHandler =>
  sendFile(file, file.type === "text/html" ? { "Content-Security-Policy": PAGE_POLICY } : {});

/** Answers browsers, which name HTML in `Accept`, with 404 and this page. Other clients get the error. */
const answerBrowsers =
  (page: RequestHandler): RequestHandler =>
  (req, res, next) => {
    res.vary("Accept");
    if (req.accepts(["json", "html"]) !== "html") throw notFound();
    page(req, res.status(404), next);
  };

/** Redirects browsers, which name HTML in `Accept`. For other clients `/` is an unknown path. */
const redirectBrowsers: RequestHandler = (req, res) => {
  res.vary("Accept");
  if (req.accepts(["json", "html"]) !== "html") throw notFound();
  res.redirect(302, "/docs");
};
