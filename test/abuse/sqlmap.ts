import { makeTempFolder, runTool } from "../support/run-tool.js";

/** A request with an asterisk after each value to test; all of them in the URL, in one header, or in the body. */
export interface Target {
  url: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Names of the marked values, in order. */
  values: string[];
}

export interface Findings {
  /** Names of the values that sqlmap reports as vulnerable, and as not injectable. */
  vulnerable: string[];
  safe: string[];
  output: string;
}

const OPTIONS = [
  ...["--batch", "--flush-session", "--disable-coloring", "--ignore-stdin", "--skip-waf"],
  ...["--level=3", "--risk=2", "--threads=2", "--dbms=postgresql", "--timeout=20"],
  // Boolean-based, error-based, UNION, stacked and time-based.
  ...["--technique=BEUST", "--time-sec=2"],
  // Expected responses to an invalid value.
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
  const headerFlags = Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`);
  const bodyFlags = body === undefined ? [] : [`--data=${body}`];
  const folder = await makeTempFolder("sqlmap");
  const args = [
    "-u",
    url,
    `--method=${method}`,
    ...headerFlags,
    ...bodyFlags,
    ...OPTIONS,
    `--output-dir=${folder}`,
  ];
  const output = await runTool("sqlmap", args, 400);
  const namesOf = (verdict: RegExp) => {
    const found = [...output.matchAll(verdict)].map(
      ([, number]) => values[Number(number) - 1] ?? `#${number}`,
    );
    return [...new Set(found)];
  };
  return {
    vulnerable: namesOf(/parameter '[^']*#(\d+)\*' is vulnerable/g),
    safe: namesOf(/parameter '[^']*#(\d+)\*' does not seem to be injectable/g),
    output,
  };
}
