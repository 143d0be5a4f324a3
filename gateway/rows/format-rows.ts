import { formatCsv, toRecord } from "./csv.js";
import type { Format } from "./format.js";
import { formatNdjson } from "./ndjson.js";

/** Formats a whole file of rows that have these columns. */
export const formatRows = (
  rows: readonly Record<string, unknown>[],
  format: Format,
  columns: readonly string[],
): string => (format === "csv" ? toRecord(columns) + formatCsv(rows, columns) : formatNdjson(rows));
