import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type RequestHandler, Router } from "express";
import { packageRoot } from "../../prisma/package-root.js";
import type { Settings } from "../../server/config.js";
import { notFound } from "../../server/errors.js";
import { sendFile, type TextFile } from "../http/files.js";
import { serveAt } from "../http/methods.js";
import { NOT_FOUND, PAGE_POLICY } from "./layout.js";
import type { SiteFile } from "./site.js";

/** Serves the files that `npm run build` has written to `dist/site.json`, and the SDK, as it has packed it. */
export function documentation({ PUBLIC_URL }: Settings): RequestHandler {
  const router = Router({ caseSensitive: true, strict: true });
  const files: SiteFile[] = JSON.parse(readFileSync(join(packageRoot(), "dist/site.json"), "utf8"));
  const sdk = readFileSync(join(packageRoot(), "dist/sdk.tgz"));
  serveAt(router, "/docs/sdk.tgz", (_req, res) => {
    res.type("application/gzip").set("Cache-Control", "no-cache").send(sdk);
  });
  for (const { path, ...relative } of files) {
    const file = PUBLIC_URL === undefined ? relative : withOrigin(relative, PUBLIC_URL);
    const isPage = file.type === "text/html";
    const send = sendFile(file, isPage ? { "Content-Security-Policy": PAGE_POLICY } : {});
    if (path === NOT_FOUND) {
      router.get(/^\/docs\//, answerBrowsers(404, send));
      continue;
    }
    serveAt(router, path, send);
    if (isPage) serveAt(router, `${path}/`, (_req, res) => res.redirect(308, path));
  }
  serveAt(
    router,
    "/",
    answerBrowsers(302, (_req, res) => res.redirect("/docs")),
  );
  return router;
}

/** Makes the addresses in the OpenAPI document, in Markdown and in `/llms.txt` absolute. Those of pages stay relative. */
function withOrigin(file: TextFile, origin: string): TextFile {
  if (file.type === "application/json")
    return { ...file, text: file.text.replace('"url": "/"', () => `"url": ${JSON.stringify(origin)}`) };
  if (!/markdown|plain/.test(file.type)) return file;
  const text = file.text
    .replaceAll("](/", () => `](${origin}/`)
    .replace("Base URL: `/`", () => `Base URL: \`${origin}\``);
  return { ...file, text };
}

/** Answers browsers, which name HTML in `Accept`. For other clients, the path is unknown. */
const answerBrowsers =
  (status: number, handler: RequestHandler): RequestHandler =>
  (req, res, next) => {
    res.vary("Accept");
    if (req.accepts(["json", "html"]) !== "html") throw notFound();
    handler(req, res.status(status), next);
  };
