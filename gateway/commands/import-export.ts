import { command } from "../cli/command.js";
import { argument, flag, option } from "../cli/fields.js";
import { formatTable } from "../cli/print.js";
import { TEXT } from "../cli/readers.js";
import { FORMATS, formatOf, formatOfFile, formatOption } from "../rows/format.js";
import type { ImportSummary } from "./actions/import.js";

export const importCommand = command({
  description: "create and update users, listings and memberships from a file",
  input: {
    file: argument("<file>", TEXT),
    format: formatOption("its extension"),
    dryRun: flag("--dry-run", "check the file and count what an import would do, but write nothing", true),
    output: option(
      "--output <file>",
      "write the id of each user and listing beside its externalId (CSV, or .ndjson)",
      TEXT,
    ),
  },
  help: `
The file is CSV with a header, or NDJSON (one JSON object per line), in UTF-8. Use - for standard input. Each row has a
type, which decides its other fields:

  user        externalId, email, name
  listing     externalId, title, address, city, country, zipCode, timezone,
              district, active, maxPeopleInListing, maxVehicles, allowPets,
              language
  membership  listing (externalId or id), user (externalId, id or email
              address), role (OWNER, WRITER or READER, in any case)

The field id, which an export has, finds a user or listing that has no externalId yet. It is an error if the one with
this id has another externalId. If any row is invalid, nothing is written and every error is printed with its line. An import can be run again: rows that exist are updated if they differ. Nothing is deleted.`,
  examples: ["guest-forms import hosts.csv --dry-run", "guest-forms import hosts.csv --output ids.csv"],
  check({ dryRun, output, ...given }) {
    formatOfFile(given);
    return dryRun !== undefined && output !== undefined && "--dry-run writes nothing: remove --output.";
  },
  async call(core, { file, format, dryRun = false, output }) {
    const { importFile } = await import("./actions/import.js");
    return importFile(core, file, { format: formatOfFile({ file, format }), dryRun, output });
  },
  text: formatSummary,
});

function formatSummary({ dryRun, ids: _, ...counts }: ImportSummary): string {
  const rows = Object.entries(counts).map(([type, counted]) => ({ type, ...counted }));
  const table = formatTable(rows, ["type", "created", "updated", "unchanged"], "");
  return dryRun ? `${table}\n\nThis was a dry run: nothing was written.` : table;
}

const formatOfExport = ({ format, output = "" }: Partial<Record<"format" | "output", string | undefined>>) =>
  FORMATS.find((known) => known === format) ?? formatOf(output) ?? "csv";

export const exportCommand = command({
  description: "write all users, listings and memberships in the format of import, with their ids",
  input: {
    format: formatOption("the extension of --output, or csv"),
    output: option("--output <file>", "file to write, readable only by you (default: standard output)", TEXT),
    isForSpreadsheets: flag("--for-spreadsheets", "write an apostrophe before values that look like formulas", true),
  },
  help: `
An import of the file into the same database changes nothing. An import into another database creates what it lacks.
A CSV file with --for-spreadsheets is for reading, not for import: titles and
ids that begin with =, +, - or @ are changed. --json prints the number of rows,
and requires --output.`,
  examples: ["guest-forms export --output hosts.csv"],
  check(given, isJson) {
    if (given.isForSpreadsheets !== undefined && formatOfExport(given) !== "csv")
      return "--for-spreadsheets writes CSV: remove it, or choose this format.";
    return isJson && given.output === undefined && "--json requires --output.";
  },
  async call(core, { format, output, isForSpreadsheets }) {
    const { exportFile } = await import("./actions/export.js");
    return exportFile(core, { format: formatOfExport({ format, output }), output, isForSpreadsheets });
  },
  text: ({ users, listings, memberships }, { output }) =>
    output === undefined ? undefined : `Wrote ${users} users, ${listings} listings and ${memberships} memberships.`,
});
