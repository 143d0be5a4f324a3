import type { Line, LineError } from "../../server/onboarding/schema.js";

/** What a file has: lines to check, and errors of lines that cannot be read. */
export interface FileContent {
  lines: Line[];
  errors: LineError[];
}
