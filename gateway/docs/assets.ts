import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import type { RequestHandler } from "express";
import { packageRoot } from "../../prisma/package-root.js";

/** A file that never changes while the process runs. */
export interface Asset {
  type: string;
  gzipped: Buffer;
}

const TYPES = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  json: "application/json",
  md: "text/markdown",
  txt: "text/plain",
} as const;

export const textAsset = (type: keyof typeof TYPES, text: string): Asset => ({
  type: `${TYPES[type]}; charset=utf-8`,
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
export function sendAsset({ type, gzipped }: Asset, headers: Record<string, string>): RequestHandler {
  // Decompressed once, so that clients cannot cause this work per request.
  let plain: Buffer | undefined;
  return (req, res) => {
    const compressed = req.acceptsEncodings("gzip") === "gzip";
    if (!compressed) plain ??= gunzipSync(gzipped);
    const bytes = plain && !compressed ? plain : gzipped;
    res.set({
      ...headers,
      "Content-Type": type,
      "Content-Length": String(bytes.length),
      Vary: "Accept-Encoding",
    });
    if (compressed) res.setHeader("Content-Encoding", "gzip");
    res.end(bytes);
  };
}
