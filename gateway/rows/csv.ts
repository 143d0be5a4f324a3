import { CsvError, parse } from "csv-parse/sync";
import type { z } from "zod";
import { type LineError, ROW_SHAPES } from "../../server/onboarding/schema.js";
import type { FileContent } from "./file-content.js";

const SHAPES = new Map<string, Record<string, z.ZodType>>(Object.entries(ROW_SHAPES));

/** The columns of all types of rows. */
const COLUMNS = [...new Set([...SHAPES.values()].flatMap((shape) => Object.keys(shape)))];

interface CsvRecord {
  line: number;
  cells: string[];
}

/** Reads CSV as in RFC 4180, with a header. */
export function parseCsv(text: string): FileContent {
  const { records, errors } = readRecords(text);
  const [header, ...rows] = records;
  const columns = header?.cells.map((cell) => cell.trim()) ?? [];
  const faults = headerFaults(columns).map((fault) => ({ line: header?.line ?? 1, ...fault }));
  // Without a valid header, no cell can be named.
  if (faults.length > 0) return { lines: [], errors: [...faults, ...errors] };
  const isComplete = ({ cells }: CsvRecord) => cells.length === columns.length;
  const uneven = rows
    .filter((record) => !isComplete(record))
    .map(({ line, cells }) => {
      const issue = `has ${cells.length} values, but the header has ${columns.length} columns`;
      return { line, field: "row", issue };
    });
  const lines = rows.filter(isComplete).map(({ line, cells }) => ({ line, value: toRow(columns, cells) }));
  return { lines, errors: [...uneven, ...errors] };
}

/** Reads all records, or those before the first one that is not CSV. */
function readRecords(text: string): { records: CsvRecord[]; errors: LineError[] } {
  const records: CsvRecord[] = [];
  let end = 0;
  const add = (cells: string[], { lines }: { lines: number }) => {
    // `lines` is the last line of the record.
    records.push({ line: lines - cells.join("").split("\n").length + 1, cells });
    end = lines;
    return null;
  };
  try {
    parse(text, {
      record_delimiter: ["\r\n", "\n"],
      relax_column_count: true,
      skip_empty_lines: true,
      on_record: add,
    });
    return { records, errors: [] };
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const issue =
      error.code === "CSV_QUOTE_NOT_CLOSED"
        ? "opens a quote that is never closed"
        : 'has a misplaced quote: write "" for a quote in a quoted value';
    return {
      records,
      errors: [{ line: end + 1, field: "row", issue: `${issue}. The rest of the file was not checked` }],
    };
  }
}

function headerFaults(columns: string[]): Omit<LineError, "line">[] {
  const faults = columns.flatMap((field, index) => {
    if (!COLUMNS.includes(field))
      return [{ field, issue: `is not a known column: use ${COLUMNS.join(", ")}` }];
    return columns.indexOf(field) < index ? [{ field, issue: "is there twice" }] : [];
  });
  const issue = "is required as a column of the header, and columns are separated by commas";
  return columns.includes("type") ? faults : [{ field: "type", issue }, ...faults];
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

/** Writes rows as CSV, after `csvHeader`. */
export const formatCsv = (rows: readonly Record<string, unknown>[]): string =>
  rows.map((row) => toRecord(COLUMNS.map((column) => row[column] ?? ""))).join("");

export const csvHeader = (): string => toRecord(COLUMNS);

const toRecord = (values: unknown[]) => `${values.map((value) => quote(String(value))).join(",")}\r\n`;

const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
