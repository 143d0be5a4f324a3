import { readFile } from "node:fs/promises";
import { type ErasureRecord, erasureRecord } from "../../../server/erasure/schema.js";
import { fieldErrorsOf } from "../../../server/errors.js";
import { CommandFailure } from "../../cli/failure.js";
import { parseNdjson } from "../../rows/ndjson.js";

/** Malformed lines to report. */
const MAX_ERRORS = 20;

/** Reads records of erasures, one JSON object per line. Skips failed erasures. Throws a CommandFailure that names each malformed line. */
export async function readErasureFile(path: string): Promise<ErasureRecord[]> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandFailure(`FILE: cannot be read (${error.code}): ${path}`);
  });
  const { lines, errors } = parseNdjson(text);
  const faults = errors.map(({ line }) => ({ line, issue: `line ${line} must be a JSON object` }));
  const records: ErasureRecord[] = [];
  for (const { line, value } of lines) {
    // What `people erase --json` prints if it fails.
    if ("error" in value) continue;
    const parsed = erasureRecord.safeParse(value);
    if (parsed.success) records.push({ ...parsed.data, erasedAt: parsed.data.erasedAt.toISOString() });
    else
      faults.push(
        ...fieldErrorsOf(parsed.error).map(({ field, issue }) => ({ line, issue: `line ${line}: ${field} ${issue}` })),
      );
  }
  const first = faults.sort((a, b) => a.line - b.line).slice(0, MAX_ERRORS);
  if (first.length > 0) throw CommandFailure.ofFields(first.map(({ issue }) => ({ field: "FILE", issue })));
  return records;
}
