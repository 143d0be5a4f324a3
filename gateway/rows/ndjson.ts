import type { FileContent } from "./format.js";

/** Reads one JSON object per line. Blank lines are skipped. */
export function parseNdjson(text: string): FileContent {
  const content: FileContent = { lines: [], errors: [] };
  for (const [index, json] of text.split("\n").entries()) {
    const line = index + 1;
    if (json.trim() === "") continue;
    const value = parseObject(json);
    if (value) content.lines.push({ line, value });
    else content.errors.push({ line, field: "row", issue: "must be one JSON object" });
  }
  return content;
}

function parseObject(json: string): object | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export const formatNdjson = (rows: readonly object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
