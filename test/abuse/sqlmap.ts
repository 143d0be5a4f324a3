import { ownFolder, runTool } from "./tool.js";

/** A request with an asterisk behind each value that is to be tested: all in its path, one header, or its body. */
export interface Target {
  url: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Names of those values, in order. */
  values: string[];
}

export interface Findings {
  /** The values that sqlmap says are vulnerable, and those that it says do not seem to be injectable. */
  vulnerable: string[];
  safe: string[];
  /** All that it said. */
  said: string;
}

const BOUNDS = [
  ...["--batch", "--flush-session", "--disable-coloring", "--ignore-stdin", "--skip-waf"],
  ...["--level=1", "--risk=1", "--threads=2", "--dbms=postgresql", "--timeout=20"],
  // Boolean, error, UNION, stacked and timed: it first learns how long answers usually take, and how that varies.
  ...["--technique=BEUST", "--time-sec=2"],
  // Refusals are what a wrong value is to get.
  "--ignore-code=400,401,404,422",
];

/** Tries to inject SQL into each marked value. */
export async function runSqlmap({
  url,
  method = "GET",
  headers = {},
  body,
  values,
}: Target): Promise<Findings> {
  const given = Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`);
  const data = body === undefined ? [] : [`--data=${body}`];
  const folder = await ownFolder("sqlmap");
  const args = ["-u", url, `--method=${method}`, ...given, ...data, ...BOUNDS, `--output-dir=${folder}`];
  const said = await runTool("sqlmap", args, 170);
  const named = (verdict: RegExp) => {
    const found = [...said.matchAll(verdict)].map(([, number]) => values[Number(number) - 1] ?? `#${number}`);
    return [...new Set(found)];
  };
  return {
    vulnerable: named(/parameter '[^']*#(\d+)\*' is vulnerable/g),
    safe: named(/parameter '[^']*#(\d+)\*' does not seem to be injectable/g),
    said,
  };
}
