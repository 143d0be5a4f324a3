import { type ErasureRecord, erasureRecord } from "../../../server/erasure/schema.js";
import { fieldErrorsOf } from "../../../server/errors.js";
import { CommandFailure } from "../../cli/failure.js";
import { readRows } from "../../rows/read-file.js";

/** Reads records of erasures, one JSON object per line. Skips failed erasures. Throws a CommandFailure that names each malformed line. */
export async function readErasureFile(path: string): Promise<ErasureRecord[]> {
  const { lines, errors } = await readRows(path, "ndjson");
  const records: ErasureRecord[] = [];
  for (const { line, value } of lines) {
    // What `people erase --json` prints if it fails.
    if ("error" in value) continue;
    const parsed = erasureRecord.safeParse(value);
    if (parsed.success) records.push({ ...parsed.data, erasedAt: parsed.data.erasedAt.toISOString() });
    else errors.push(...fieldErrorsOf(parsed.error).map((error) => ({ line, ...error })));
  }
  if (errors.length > 0) throw CommandFailure.ofLines(errors, "Nothing was erased.");
  return records;
}
