import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { CommandFailure } from "../cli/failure.js";
import { parseCsv } from "./csv.js";
import type { FileContent, Format } from "./format.js";
import { parseNdjson } from "./ndjson.js";

/** Reads a file of rows; `-` is standard input. */
export async function readRows(path: string, format: Format): Promise<FileContent> {
  const bytes = await readBytes(path);
  if (!isUtf8(bytes)) return { lines: [], errors: encodingErrors(bytes) };
  // The decoder drops a byte order mark.
  const text = new TextDecoder().decode(bytes);
  return format === "csv" ? parseCsv(text) : parseNdjson(text);
}

async function readBytes(path: string): Promise<Buffer> {
  try {
    return await (path === "-" ? buffer(process.stdin) : readFile(path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CommandFailure(`Cannot read ${path}: ${code === "ENOENT" ? "there is no such file" : code}.`);
  }
}

const LINE_FEED = 10;

function encodingErrors(bytes: Buffer) {
  const errors = [];
  for (let line = 1, start = 0; start < bytes.length; line++) {
    const end = bytes.indexOf(LINE_FEED, start);
    const next = end === -1 ? bytes.length : end + 1;
    if (!isUtf8(bytes.subarray(start, next)))
      errors.push({ line, field: "row", issue: 'must be UTF-8, which Excel saves as "CSV UTF-8"' });
    start = next;
  }
  return errors;
}
