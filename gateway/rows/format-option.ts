import { InvalidArgumentError, Option } from "commander";
import { FORMATS, type Format, formatOf } from "./format.js";

export const formatOption = (fallback: string): Option =>
  new Option("--format <format>", `format of the file (default: ${fallback})`).choices(FORMATS);

/** The format of a file that a command reads: `format`, or what its extension names. */
export function formatOfFile({ file, format = formatOf(file) }: { file: string; format?: Format }): Format {
  if (!format) throw new InvalidArgumentError("The file is neither .csv nor .ndjson: add --format.");
  return format;
}
