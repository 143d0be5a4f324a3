import { type Command, InvalidArgumentError, Option } from "commander";
import { addDataCommand } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";
import { FORMATS, type Format, formatOf } from "../rows/format.js";
import type { ImportSummary } from "./actions/import.js";

const formatOption = (fallback: string) =>
  new Option("--format <format>", `format of the file (default: ${fallback})`).choices(FORMATS);

interface ImportOptions {
  file: string;
  format?: Format;
  dryRun?: boolean;
}

export const addImport = (program: Command): Command =>
  addDataCommand(program, "import <file>", {
    description: "create and update users, listings and memberships from a file",
    options: [
      formatOption("its extension"),
      new Option("--dry-run", "check the file and count what an import would do, but write nothing"),
    ],
    help: `
The file is CSV with a header, or NDJSON (one JSON object per line), in UTF-8. Use - for standard input. Each row has a
type, which decides its other fields:

  user        externalId, email, name
  listing     externalId, title, address, city, country, zipCode, timezone,
              district, active, maxPeopleInListing, maxVehicles, allowPets
  membership  listing (externalId or id), role (OWNER, WRITER or READER),
              user (externalId, id or email address)

If any row is invalid, nothing is written and every error is printed with its line. An import can be run again: rows
that exist are updated if they differ. Nothing is deleted.

Example:
  guest-forms import hosts.csv --dry-run`,
    check: (given: ImportOptions) => void formatOfImport(given),
    call: async (core, given: ImportOptions) => {
      const { importFile } = await import("./actions/import.js");
      return importFile(core, given.file, { format: formatOfImport(given), dryRun: given.dryRun ?? false });
    },
    text: formatSummary,
  });

function formatOfImport({ file, format = formatOf(file) }: ImportOptions): Format {
  if (!format) throw new InvalidArgumentError("The file is neither .csv nor .ndjson: add --format.");
  return format;
}

function formatSummary({ dryRun, ...counts }: ImportSummary): string {
  const rows = Object.entries(counts).map(([type, counted]) => ({ type, ...counted }));
  const table = formatTable(rows, ["type", "created", "updated", "unchanged"], "");
  return dryRun ? `${table}\n\nThis was a dry run: nothing was written.` : table;
}

interface ExportOptions {
  format?: Format;
  output?: string;
}

export const addExport = (program: Command): Command =>
  addDataCommand(program, "export", {
    description: "write all users, listings and memberships in the format of import",
    options: [
      formatOption("the extension of --output, or csv"),
      new Option("--output <file>", "file to write, readable only by you (default: standard output)"),
    ],
    help: `
An import of the file into the same database changes nothing. An import into another database creates what it lacks.
--json prints the number of rows, and requires --output.

Example:
  guest-forms export --output hosts.csv`,
    check({ json, output }: ExportOptions & { json?: true }) {
      if (json && output === undefined) throw new InvalidArgumentError("--json requires --output.");
    },
    call: async (core, { format, output }: ExportOptions) => {
      const { exportFile } = await import("./actions/export.js");
      return exportFile(core, { format: format ?? formatOf(output ?? "") ?? "csv", output });
    },
    text: ({ users, listings, memberships }, { output }) =>
      output === undefined ? undefined : `Wrote ${users} users, ${listings} listings and ${memberships} memberships.`,
  });
