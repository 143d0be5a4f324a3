import { extname } from "node:path";
import type { Line, LineError } from "../../server/onboarding/schema.js";

export const FORMATS = ["csv", "ndjson"] as const;

export type Format = (typeof FORMATS)[number];

/** The format that the extension of a file names. */
export const formatOf = (path: string): Format | undefined =>
  FORMATS.find((format) => extname(path).toLowerCase() === `.${format}`);

/** What a file has: lines to check, and errors of lines that cannot be read. */
export interface FileContent {
  lines: (Line & { value: object })[];
  errors: LineError[];
}
