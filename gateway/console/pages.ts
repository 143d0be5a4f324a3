import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import type { RequestHandler, Router } from "express";
import { packageRoot } from "../../prisma/package-root.js";
import { notFound, ServiceError } from "../../server/errors.js";
import { sendFile } from "../http/files.js";
import { serveAt } from "../http/methods.js";

const TYPES: Record<string, string> = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** Serves what `npm run build` has written to `dist/console`: its assets, and its page at every other path. */
export function servePages(router: Router, folder = join(packageRoot(), "dist/console")): void {
  const read = (path: string) => readFileSync(join(folder, path), "utf8");
  for (const name of existsSync(folder) ? readdirSync(join(folder, "assets")) : []) {
    const type = TYPES[extname(name)] ?? "text/plain";
    serveAt(router, `/assets/${name}`, sendFile({ type, isImmutable: true, text: read(`assets/${name}`) }));
  }
  router.use("/assets", () => {
    throw notFound();
  });
  serveAt(
    router,
    "/{*page}",
    existsSync(folder) ? sendFile({ type: "text/html", isImmutable: false, text: read("index.html") }) : rejectNotBuilt,
  );
}

const rejectNotBuilt: RequestHandler = () => {
  throw new ServiceError("RESOURCE_NOT_FOUND", { message: "The console has not been built: run `npm run build`." });
};
