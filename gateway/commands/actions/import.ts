import type { Caller } from "../../../server/caller.js";
import { ServiceError } from "../../../server/errors.js";
import { addCounts, noCounts } from "../../../server/onboarding/outcomes.js";
import {
  BATCH,
  type Counts,
  type FileCounts,
  type LineError,
  type Row,
  row,
} from "../../../server/onboarding/schema.js";
import { inGroups } from "../../../server/values.js";
import { CommandFailure } from "../../cli/failure.js";
import { Progress } from "../../cli/progress.js";
import type { Format } from "../../rows/format.js";
import { readRows } from "../../rows/read-file.js";

export interface ImportSummary extends FileCounts {
  dryRun: boolean;
}

/** Checks a whole file, then writes its rows in batches. */
export async function importFile(
  core: Caller,
  path: string,
  { format, dryRun }: { format: Format; dryRun: boolean },
): Promise<ImportSummary> {
  const { lines, errors } = await readRows(path, format);
  const checked = await core.onboarding.check({ lines });
  const all = [...errors, ...checked.errors].sort((a, b) => a.line - b.line);
  if (all.length > 0) throw failureOf(all, `Nothing was imported. Errors in ${path}: ${all.length}.`);
  if (dryRun) return { dryRun, ...checked.counts };
  const rows = lines.map(({ line, value }) => ({ line, row: row.parse(value) }));
  const ofType = (type: Row["type"]) => rows.filter((located) => located.row.type === type);
  const progress = new Progress(rows.length);
  const write = (located: LocatedRow[]) => writeInBatches(core, located, progress);
  // Memberships last: they need their users and listings.
  const users = await write(ofType("user"));
  const listings = await write(ofType("listing"));
  const memberships = await write(ofType("membership"));
  progress.end();
  return { dryRun, users, listings, memberships };
}

interface LocatedRow {
  line: number;
  row: Row;
}

async function writeInBatches(core: Caller, rows: LocatedRow[], progress: Progress): Promise<Counts> {
  let counts = noCounts();
  for (const batch of inGroups(rows, BATCH)) {
    const written = core.onboarding.write({ rows: batch.map(({ row }) => row) });
    counts = addCounts(counts, await written.catch((error) => explainWrite(error, batch, progress)));
    progress.add(batch.length);
  }
  return counts;
}

/** Reports how much is written. Rows can only be invalid if another process has changed the database since the check. */
function explainWrite(error: unknown, batch: LocatedRow[], progress: Progress): never {
  progress.end();
  const written = `${progress.done} of ${progress.total} rows are written. Run the import again to write the others.`;
  if (error instanceof ServiceError && error.serviceCode === "VALIDATION_ERROR") {
    const errors = (error.errors ?? []).map(({ field, issue }) => {
      const [, index, name = field] = /^rows\.(\d+)\.(.+)$/.exec(field) ?? [];
      return { line: batch[Number(index)]?.line ?? 0, field: name, issue };
    });
    throw failureOf(errors, written);
  }
  process.stderr.write(`${written}\n`);
  throw error;
}

function failureOf(errors: LineError[], summary: string): CommandFailure {
  const lines = errors.map(({ line, field, issue }) => `line ${line}: ${field}: ${issue}`);
  return new CommandFailure([...lines, summary].join("\n"), 1, { code: "VALIDATION_ERROR", errors });
}
