import { gzipSync } from "node:zlib";
import type { RequestHandler } from "express";

export interface TextFile {
  /** The media type, without a charset. */
  type: string;
  /** Whether its path changes with its text. */
  isImmutable?: boolean;
  text: string;
}

/** Sends the file, compressed if the client accepts that. */
export function sendFile({ type, isImmutable, text }: TextFile, headers: Record<string, string> = {}): RequestHandler {
  const plain = Buffer.from(text);
  let gzipped: Buffer | undefined;
  return (req, res) => {
    res.vary("Accept-Encoding");
    const isCompressed = req.acceptsEncodings("gzip") === "gzip";
    if (isCompressed) gzipped ??= gzipSync(plain);
    const bytes = gzipped && isCompressed ? gzipped : plain;
    res.set({
      "Content-Type": `${type}; charset=utf-8`,
      "Cache-Control": isImmutable ? "public, max-age=31536000, immutable" : "no-cache",
      ...headers,
      "Content-Length": String(bytes.length),
      ...(isCompressed && { "Content-Encoding": "gzip" }),
    });
    res.end(bytes);
  };
}
