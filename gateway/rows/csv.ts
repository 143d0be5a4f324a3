import { CsvError, parse } from "csv-parse/sync";
import type { z } from "zod";
import { type LineError, ROW_SHAPES } from "../../server/onboarding/schema.js";
import { findNearMiss } from "../cli/near-misses.js";
import type { FileContent } from "./format.js";

const SHAPES = new Map<string, Record<string, z.ZodType>>(Object.entries(ROW_SHAPES));

/** The columns of all types of rows. */
export const COLUMNS = [...new Set([...SHAPES.values()].flatMap((shape) => Object.keys(shape)))];

/** Reads CSV as in RFC 4180, with a header, and as spreadsheets write it. */
export function parseCsv(raw: string): FileContent {
  // The parser would count a CRLF in quotes as two lines.
  const text = raw.replace(/\r\n?/g, "\n");
  const lastLine = text.split("\n").length;
  const content: FileContent = { lines: [], errors: [] };
  let columns: string[] | undefined;
  let faults: LineError[] = [{ line: 1, ...NO_TYPE }];
  let end = 0;
  const add = (cells: string[], info: { lines: number }) => {
    // `info.lines` is the last line of the record.
    const line = info.lines - cells.join("").split("\n").length + 1;
    end = info.lines;
    if (columns) addRow(content, { columns, cells, line, isUnended: info.lines === lastLine });
    else {
      columns = withoutEmptyEnd(cells).map((cell) => cell.trim());
      faults = headerFaults(columns).map((fault) => ({ line, ...fault }));
    }
    return null;
  };
  try {
    parse(text, {
      // The locale of a spreadsheet decides. No name of a column has one of these characters.
      delimiter: /[,;\t]/.exec(text)?.[0] ?? ",",
      record_delimiter: "\n",
      relax_column_count: true,
      skip_records_with_empty_values: true,
      on_record: add,
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    content.errors.push({ line: end + 1, field: "row", issue: explain(error) });
  }
  // Without a valid header, no cell can be named.
  return faults.length > 0 ? { lines: [], errors: faults } : content;
}

/** Spreadsheets write cells for empty columns, and Excel leaves out the last cells of a row if they are empty. */
const withoutEmptyEnd = (cells: string[]) => cells.slice(0, cells.findLastIndex((cell) => cell.trim() !== "") + 1);

interface Cells {
  columns: string[];
  cells: string[];
  line: number;
  /** Whether no line break follows. */
  isUnended: boolean;
}

function addRow(content: FileContent, { columns, cells, line, isUnended }: Cells): void {
  const given = withoutEmptyEnd(cells);
  const tooMany = given.length > columns.length;
  const tooFew = isUnended && cells.length < columns.length;
  const errors =
    tooMany || tooFew
      ? [{ field: "row", issue: `has ${cells.length} values, but the header has ${columns.length} columns` }]
      : columns
          .filter((column, index) => NAMES.includes(column) && SHORTENED.test(given[index] ?? ""))
          .map((field) => ({ field, issue: SHORTENED_ISSUE }));
  if (errors.length > 0) content.errors.push(...errors.map((error) => ({ line, ...error })));
  else content.lines.push({ line, value: toRow(columns, cells) });
}

/** Columns whose values may be digits only. */
const NAMES = ["externalId", "listing", "user"];

/** Such as 1.23457E+15: other digits are lost. */
const SHORTENED = /^\d([.,]\d+)?E\+\d+$/i;
const SHORTENED_ISSUE = "is a number that a spreadsheet has shortened: format the column as text";

const explain = ({ code }: CsvError) =>
  code === "CSV_QUOTE_NOT_CLOSED"
    ? "opens a quote that is never closed. The rest of the file was not checked"
    : 'has a misplaced quote: write "" for a quote in a quoted value. The rest of the file was not checked';

const NO_TYPE = {
  field: "type",
  issue: "is required as a column of the header, and columns are separated by commas, semicolons or tabs",
};

function headerFaults(columns: string[]): Omit<LineError, "line">[] {
  const faults = columns.flatMap((field, index) => {
    if (COLUMNS.includes(field)) return columns.indexOf(field) < index ? [{ field, issue: "is there twice" }] : [];
    if (field === "") return [{ field: `column ${index + 1}`, issue: "has no name" }];
    const meant = findNearMiss(field, COLUMNS);
    const advice = meant ? `did you mean ${meant}?` : `use ${COLUMNS.join(", ")}`;
    return [{ field, issue: `is not a known column: ${advice}` }];
  });
  const hasType = columns.some((column) => (findNearMiss(column, COLUMNS) ?? column) === "type");
  return hasType ? faults : [NO_TYPE, ...faults];
}

/** The cells of the columns that the row's type has, and those of other columns that are not empty. */
function toRow(columns: string[], cells: string[]): Record<string, unknown> {
  const cellOf = (column: string) => cells[columns.indexOf(column)]?.trim();
  const shape = SHAPES.get(cellOf("type") ?? "") ?? {};
  const fields = columns.map((column) => [column, toValue(shape[column], cellOf(column))]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

/** The value of a cell. The schema decides what it may be; a cell that fits nothing stays text, which the check rejects. */
function toValue(schema: z.ZodType | undefined, cell: string | undefined): unknown {
  const accepts = (value: unknown) => schema?.safeParse(value).success;
  // The row ends before this column, which removes no stored value: the row may have been cut.
  if (cell === undefined) return undefined;
  if (cell === "") return accepts(null) ? null : undefined;
  // Excel, LibreOffice and Google Sheets write TRUE and FALSE.
  if (/^(true|false)$/i.test(cell) && accepts(true)) return cell.toLowerCase() === "true";
  // Tables of other tools have 4.0 in a column with empty cells.
  if (/^-?\d{1,15}(\.0+)?$/.test(cell) && accepts(1)) return Number(cell);
  return cell;
}

interface CsvOptions {
  columns?: readonly string[];
  /** Whether a spreadsheet takes no value for a formula. */
  isForSpreadsheets?: boolean;
}

/** Writes rows as CSV, after a record of the columns. */
export const formatCsv = (
  rows: readonly Record<string, unknown>[],
  { columns = COLUMNS, isForSpreadsheets = false }: CsvOptions = {},
): string => {
  const toText = (value: unknown) => (isForSpreadsheets ? withoutFormula(String(value)) : value);
  return rows.map((row) => toRecord(columns.map((column) => toText(row[column] ?? "")))).join("");
};

/** See https://owasp.org/www-community/attacks/CSV_Injection. */
const withoutFormula = (text: string) => text.replace(/^[=+\-@\t\r\n]/, "'$&");

export const toRecord = (values: readonly unknown[]): string =>
  `${values.map((value) => quote(String(value))).join(",")}\n`;

// Semicolons and tabs too: some spreadsheets separate values by them.
const quote = (text: string) => (/[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
