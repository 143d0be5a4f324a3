import { InvalidArgumentError } from "commander";
import { option } from "../cli/fields.js";
import { oneOf } from "../cli/readers.js";
import { FORMATS, type Format, formatOf } from "./format.js";

export const formatOption = (fallback: string) =>
  option("--format <format>", `format of the file (default: ${fallback})`, oneOf(FORMATS));

/** The format of a file that a command reads: `format`, or what its extension names. */
export function formatOfFile({
  file = "",
  format,
}: {
  file?: string | undefined;
  format?: string | undefined;
}): Format {
  const found = FORMATS.find((known) => known === format) ?? formatOf(file);
  if (!found) throw new InvalidArgumentError("The file is neither .csv nor .ndjson: add --format.");
  return found;
}
