import { extname } from "node:path";
import { InvalidArgumentError } from "commander";
import type { Line, LineError } from "../../server/onboarding/schema.js";
import { option } from "../cli/fields.js";
import { oneOf } from "../cli/readers.js";

export const FORMATS = ["csv", "ndjson"] as const;

export type Format = (typeof FORMATS)[number];

/** The format that the extension of a file names. */
export const formatOf = (path: string): Format | undefined =>
  FORMATS.find((format) => extname(path).toLowerCase() === `.${format}`);

export const formatOption = (fallback: string) =>
  option("--format <format>", `format of the file (default: ${fallback})`, oneOf(FORMATS));

/** The format of a file that a command reads: `format`, or what its extension names. */
export function formatOfFile({ file = "", format }: Partial<Record<"file" | "format", string | undefined>>): Format {
  const found = FORMATS.find((known) => known === format) ?? formatOf(file);
  if (!found) throw new InvalidArgumentError("The file is neither .csv nor .ndjson: add --format.");
  return found;
}

/** What a file has: lines to check, and errors of lines that cannot be read. */
export interface FileContent {
  lines: (Line & { value: object })[];
  errors: LineError[];
}
