import type { Caller } from "../../../server/caller.js";
import { ServiceError, UNKNOWN_PROPERTY } from "../../../server/errors.js";
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
import { findNearMiss } from "../../cli/near-misses.js";
import { Progress } from "../../cli/progress.js";
import { formatCsv, COLUMNS as KNOWN, toRecord } from "../../rows/csv.js";
import { type FileContent, type Format, formatOf } from "../../rows/format.js";
import { formatNdjson } from "../../rows/ndjson.js";
import { readRows } from "../../rows/read-file.js";
import { isSameFile, writeWhole } from "../../rows/write-file.js";
import { printLine } from "../../runtime/terminal.js";

export interface ImportSummary extends FileCounts {
  dryRun: boolean;
  /** The ids of the file's users and listings. Empty if it was a dry run. */
  ids: RowId[];
}

const COLUMNS = ["type", "externalId", "id"] as const;

type RowId = Record<(typeof COLUMNS)[number], string>;

interface ImportFileOptions {
  format: Format;
  dryRun: boolean;
  /** File to write `ids` to. */
  output: string | undefined;
}

/** Checks a whole file, then writes its rows in batches. */
export async function importFile(
  core: Caller,
  path: string,
  { format, dryRun, output }: ImportFileOptions,
): Promise<ImportSummary> {
  const { lines, errors } = await readRows(path, format);
  const checked = await core.onboarding.check({ lines, isPartial: errors.length > 0 });
  const all = [...errors, ...checked.errors.map(withNearMiss)];
  if (all.length > 0) throw CommandFailure.ofLines(all, `Nothing was imported. Errors in ${path}: ${all.length}.`);
  if (dryRun) return { dryRun, ...checked.counts, ids: [] };
  if (output === undefined) return writeLines(core, lines);
  if (await isSameFile(path, output))
    throw new CommandFailure(`${output} is the file to import. Choose another --output.`);
  return writeWhole(output, async (file) => {
    const summary = await writeLines(core, lines);
    const { ids } = summary;
    await file.writeFile(
      formatOf(output) === "ndjson" ? formatNdjson(ids) : toRecord(COLUMNS) + formatCsv(ids, { columns: COLUMNS }),
    );
    return summary;
  });
}

function withNearMiss(error: LineError): LineError {
  const meant = error.issue === UNKNOWN_PROPERTY && findNearMiss(error.field, KNOWN);
  return meant ? { ...error, issue: `${error.issue}: did you mean ${meant}?` } : error;
}

async function writeLines(core: Caller, lines: FileContent["lines"]): Promise<ImportSummary> {
  const rows = lines.map(({ line, value }) => ({ line, row: row.parse(value) }));
  const ofType = (type: Row["type"]) => rows.filter((located) => located.row.type === type);
  const progress = new Progress(rows.length);
  const ids: RowId[] = [];
  const write = (located: LocatedRow[]) => writeInBatches(core, located, { progress, ids });
  // Memberships last: they need their users and listings.
  const users = await write(ofType("user"));
  const listings = await write(ofType("listing"));
  const memberships = await write(ofType("membership"));
  progress.end();
  return { dryRun: false, users, listings, memberships, ids };
}

interface LocatedRow {
  line: number;
  row: Row;
}

/** Adds the ids of the rows to `ids`. */
async function writeInBatches(
  core: Caller,
  rows: LocatedRow[],
  { progress, ids }: { progress: Progress; ids: RowId[] },
): Promise<Counts> {
  let counts = noCounts();
  for (const batch of inGroups(rows, BATCH)) {
    const writing = core.onboarding.write({ rows: batch.map(({ row }) => row) });
    const written = await writing.catch((error) => explainWrite(error, batch, progress));
    counts = addCounts(counts, written);
    for (const [index, { row }] of batch.entries())
      if (row.type !== "membership")
        ids.push({ type: row.type, externalId: row.externalId, id: written.ids[index] ?? "" });
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
    throw CommandFailure.ofLines(errors, written);
  }
  printLine(process.stderr, written);
  throw error;
}
