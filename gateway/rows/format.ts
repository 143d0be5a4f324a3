import { extname } from "node:path";

export const FORMATS = ["csv", "ndjson"] as const;

export type Format = (typeof FORMATS)[number];

/** The format that the extension of a file names. */
export const formatOf = (path: string): Format | undefined =>
  FORMATS.find((format) => extname(path).toLowerCase() === `.${format}`);
