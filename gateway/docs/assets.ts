import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { RequestHandler } from "express";
import { packageRoot } from "../../prisma/package-root.js";

/** A file that never changes while the process runs. */
export type Asset = ReturnType<typeof textAsset>;

const TYPES = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  json: "application/json",
  md: "text/markdown",
  txt: "text/plain",
} as const;

export const textAsset = (type: keyof typeof TYPES, text: string) => ({
  type: `${TYPES[type]}; charset=utf-8`,
  plain: Buffer.from(text),
  gzipped: gzipSync(text),
});

/** The scripts and styles of the pages, by name. */
export function browserFiles(): Record<string, Asset> {
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
export const sendAsset =
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
