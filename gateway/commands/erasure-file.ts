import { readFile } from "node:fs/promises";
import { type FieldError, fieldErrorsOf } from "../../server/errors.js";
import { type ErasureRecord, erasureRecord } from "../../server/people/schema.js";
import { CommandFailure } from "./failure.js";

/** Malformed lines to report. */
const MAX_ERRORS = 20;

/** Reads records of erasures, one JSON object per line. Skips failed erasures. Throws a CommandFailure that names each malformed line. */
export async function readErasureFile(path: string): Promise<ErasureRecord[]> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandFailure(`FILE: cannot be read (${error.code}): ${path}`);
  });
  const records: ErasureRecord[] = [];
  const errors: FieldError[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const value = parseJson(line);
    if (isFailure(value)) continue;
    const parsed = erasureRecord.safeParse(value);
    if (parsed.success) records.push(parsed.data);
    else errors.push(...fieldErrorsOf(parsed.error).map((error) => onLine(index + 1, error)));
  }
  if (errors.length > 0) throw CommandFailure.ofFields(errors.slice(0, MAX_ERRORS));
  return records;
}

/** Whether this is what `people erase --json` prints if it fails. */
const isFailure = (value: unknown) => typeof value === "object" && value !== null && "error" in value;

const onLine = (line: number, { field, issue }: FieldError): FieldError => ({
  field: "FILE",
  issue: field === "body" ? `line ${line} must be a JSON object` : `line ${line}: ${field} ${issue}`,
});

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
