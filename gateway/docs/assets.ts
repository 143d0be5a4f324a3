import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import type { RequestHandler } from "express";
import { packageRoot } from "../../prisma/package-root.js";

/** Something served as it is: a file of the reference page, the page itself, the document. */
export interface Asset {
  type: string;
  gzipped: Buffer;
  /** Changes with the content. */
  hash: string;
}

const TYPES = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  json: "application/json",
} as const;

const makeAsset = (type: keyof typeof TYPES, gzipped: Buffer): Asset => ({
  type: `${TYPES[type]}; charset=utf-8`,
  gzipped,
  hash: createHash("sha256").update(gzipped).digest("hex").slice(0, 16),
});

export const textAsset = (type: keyof typeof TYPES, text: string): Asset => makeAsset(type, gzipSync(text));

const folder = () => join(packageRoot(), "gateway", "docs");

export const fileAsset = (type: keyof typeof TYPES, name: string): Asset =>
  textAsset(type, readFileSync(join(folder(), "browser", name), "utf8"));

/** The viewer, one file of its npm package (see viewer/README.md). */
export const viewerAsset = (): Asset =>
  makeAsset("js", readFileSync(join(folder(), "viewer", "viewer.js.gz")));

/** Answers with the asset, compressed for those that accept it. */
export function sendAsset({ type, gzipped }: Asset, headers: Record<string, string>): RequestHandler {
  // Once at most: for every request it would be work that anyone can ask for.
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
