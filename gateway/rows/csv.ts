import { CsvError, parse } from "csv-parse/sync";
import type { z } from "zod";
import { type LineError, ROW_SHAPES } from "../../server/onboarding/schema.js";
import type { FileContent } from "./format.js";

const SHAPES = new Map<string, Record<string, z.ZodType>>(Object.entries(ROW_SHAPES));

/** The columns of all types of rows. */
export const COLUMNS = [...new Set([...SHAPES.values()].flatMap((shape) => Object.keys(shape)))];

/** Reads CSV as in RFC 4180, with a header. */
export function parseCsv(text: string): FileContent {
  const content: FileContent = { lines: [], errors: [] };
  let columns: string[] | undefined;
  let faults: LineError[] = [{ line: 1, ...NO_TYPE }];
  let end = 0;
  const add = (cells: string[], info: { lines: number }) => {
    // `info.lines` is the last line of the record.
    const line = info.lines - cells.join("").split("\n").length + 1;
    end = info.lines;
    if (columns) addRow(content, { columns, cells, line });
    else {
      columns = cells.map((cell) => cell.trim());
      faults = headerFaults(columns).map((fault) => ({ line, ...fault }));
    }
    return null;
  };
  try {
    parse(text, {
      record_delimiter: ["\r\n", "\n"],
      relax_column_count: true,
      skip_empty_lines: true,
      on_record: add,
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    content.errors.push({ line: end + 1, field: "row", issue: explain(error) });
  }
  // Without a valid header, no cell can be named.
  return faults.length > 0 ? { lines: [], errors: faults } : content;
}

function addRow(
  content: FileContent,
  { columns, cells, line }: { columns: string[]; cells: string[]; line: number },
): void {
  if (cells.length === columns.length) content.lines.push({ line, value: toRow(columns, cells) });
  else {
    const issue = `has ${cells.length} values, but the header has ${columns.length} columns`;
    content.errors.push({ line, field: "row", issue });
  }
}

const explain = ({ code }: CsvError) =>
  code === "CSV_QUOTE_NOT_CLOSED"
    ? "opens a quote that is never closed. The rest of the file was not checked"
    : 'has a misplaced quote: write "" for a quote in a quoted value. The rest of the file was not checked';

const NO_TYPE = {
  field: "type",
  issue: "is required as a column of the header, and columns are separated by commas",
};

function headerFaults(columns: string[]): Omit<LineError, "line">[] {
  const faults = columns.flatMap((field, index) => {
    if (!COLUMNS.includes(field)) return [{ field, issue: `is not a known column: use ${COLUMNS.join(", ")}` }];
    return columns.indexOf(field) < index ? [{ field, issue: "is there twice" }] : [];
  });
  return columns.includes("type") ? faults : [NO_TYPE, ...faults];
}

/** The cells of the columns that the row's type has, and those of other columns that are not empty. */
function toRow(columns: string[], cells: string[]): Record<string, unknown> {
  const shape = SHAPES.get(cells[columns.indexOf("type")] ?? "") ?? {};
  const fields = columns.map((column, index) => [column, toValue(shape[column], cells[index] ?? "")]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

/** The value of a cell. The schema decides what it may be; a cell that fits nothing stays text, which the check rejects. */
function toValue(schema: z.ZodType | undefined, cell: string): unknown {
  const accepts = (value: unknown) => schema?.safeParse(value).success;
  if (cell === "") return accepts(null) ? null : undefined;
  if (/^(true|false)$/.test(cell) && accepts(true)) return cell === "true";
  if (/^-?\d{1,15}$/.test(cell) && accepts(1)) return Number(cell);
  return cell;
}

/** Writes rows as CSV, after a record of the columns. */
export const formatCsv = (rows: readonly Record<string, unknown>[], columns: readonly string[] = COLUMNS): string =>
  rows.map((row) => toRecord(columns.map((column) => row[column] ?? ""))).join("");

export const toRecord = (values: readonly unknown[]): string =>
  `${values.map((value) => quote(String(value))).join(",")}\r\n`;

const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
