import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import type { RequestHandler, Router } from "express";
import { packageRoot } from "../../prisma/package-root.js";
import { notFound, ServiceError } from "../../server/errors.js";
import { sendFile } from "../http/files.js";
import { serveAt } from "../http/methods.js";

/** Serves what `npm run build` has written to `dist/console`: its assets, and its page at every other path. */
export function servePages(router: Router, folder = join(packageRoot(), "dist/console")): void {
  if (!existsSync(folder)) {
    router.use(rejectNotBuilt);
    return;
  }
  const read = (path: string) => readFileSync(join(folder, path), "utf8");
  for (const name of readdirSync(join(folder, "assets"))) {
    const type = extname(name) === ".css" ? "text/css" : "text/javascript";
    serveAt(router, `/assets/${name}`, sendFile({ type, isImmutable: true, text: read(`assets/${name}`) }));
  }
  router.use("/assets", () => {
    throw notFound();
  });
  // `no-store`: after the sign-out, the browser's Back must not show the pages from its memory.
  const page = sendFile({ type: "text/html", text: read("index.html") }, { "Cache-Control": "no-store" });
  // Any path, even with a malformed escape, on which Express would fail in a parameter.
  serveAt(router, /^/, page);
}

const rejectNotBuilt: RequestHandler = () => {
  throw new ServiceError("RESOURCE_NOT_FOUND", { message: "The console has not been built: run `npm run build`." });
};
