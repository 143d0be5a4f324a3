import { pipeline } from "node:stream/promises";
import type { Caller } from "../../../server/caller.js";
import { COLUMNS, formatCsv, toRecord } from "../../rows/csv.js";
import type { Format } from "../../rows/format.js";
import { formatNdjson } from "../../rows/ndjson.js";
import { writeWhole } from "../../rows/write-file.js";
import { printable } from "../../runtime/terminal.js";

// Memberships first: while others write, users and listings that are read later include all that memberships refer to.
const PARTS = [
  { type: "membership", counted: "memberships" },
  { type: "listing", counted: "listings" },
  { type: "user", counted: "users" },
] as const;

type ExportSummary = Record<(typeof PARTS)[number]["counted"], number>;

interface ExportFileOptions {
  format: Format;
  output?: string | undefined;
  isForSpreadsheets?: boolean | undefined;
}

/** Writes all users, listings and memberships to a file or, without `output`, to standard output. */
export async function exportFile(
  core: Caller,
  { format, output, isForSpreadsheets = false }: ExportFileOptions,
): Promise<ExportSummary> {
  const summary = { users: 0, listings: 0, memberships: 0 };
  const text = textOf(core, { format, isForSpreadsheets }, summary);
  const shown = process.stdout.isTTY ? toPrintable(text) : text;
  if (output === undefined) await pipeline(shown, process.stdout, { end: false }).catch(ignoreClosedPipe);
  else await writeWhole(output, (file) => pipeline(text, file.createWriteStream()));
  return summary;
}

async function* toPrintable(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const chunk of chunks) yield printable(chunk);
}

/** The reader, such as `head`, has read enough. */
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") throw error;
}

async function* textOf(
  core: Caller,
  { format, isForSpreadsheets }: { format: Format; isForSpreadsheets: boolean },
  summary: ExportSummary,
): AsyncGenerator<string> {
  if (format === "csv") yield toRecord(COLUMNS);
  for (const { type, counted } of PARTS) {
    let after: string | undefined;
    do {
      const { rows, next } = await core.onboarding.export({ type, after });
      summary[counted] += rows.length;
      yield format === "csv" ? formatCsv(rows, { isForSpreadsheets }) : formatNdjson(rows);
      after = next ?? undefined;
    } while (after !== undefined);
  }
}
