import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readAlertRules } from "../load/alert-rules.js";
import { readPanels } from "../load/dashboard.js";

const root = packageRoot();
const page = readFileSync(join(root, "gateway/docs/alerts.md"), "utf8");

const sources = ["server", "gateway"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => readFileSync(join(root, folder, path), "utf8")),
);

/** `log.error(`, or `log[logLevelOf(…)](`, which is at level error for some errors. */
const ERROR_CALL = /\blog\.(?:error|fatal)\(|\blog\[logLevelOf\(\w+\)\]\(/g;

/** The text of a call up to the parenthesis that closes it. */
function callAt(source: string, open: number): string {
  let depth = 0;
  for (let end = open; end < source.length; end++) {
    if (source[end] === "(") depth += 1;
    if (source[end] === ")") depth -= 1;
    if (depth === 0) return source.slice(open, end);
  }
  throw new Error(`A call does not end:\n${source.slice(open, open + 100)}`);
}

/** The message of each call that logs at level error: its last argument. */
const logged = sources.flatMap((source) =>
  [...source.matchAll(ERROR_CALL)].map(({ index, 0: start }) => {
    const call = callAt(source, index + start.length - 1);
    return /"([^"]+)",?\s*$/.exec(call)?.[1] ?? `no message: ${call}`;
  }),
);

test("alerts.md has a section for every alert, with its severity, and no other", () => {
  const rules = readAlertRules();
  const sections = [...page.matchAll(/^### (\w+)\n\n(\w+)\./gm)].map(([, name, severity]) => [
    name,
    severity?.toLowerCase(),
  ]);
  expect(sections.length).toBe(page.match(/^### /gm)?.length);
  expect(sections.sort()).toEqual(rules.map(({ alert, labels }) => [alert, labels.severity]).sort());
  expect(rules.map(({ annotations }) => annotations.runbook)).toEqual(
    rules.map(({ alert }) => `gateway/docs/alerts.md#${alert.toLowerCase()}`),
  );
});

test("alerts.md has every message that is logged at level error, and no other", () => {
  const documented = [...page.matchAll(/^\| `([^|]+)` \|/gm)].flatMap(([, messages]) => messages?.split("`, `"));
  expect([...new Set(logged)].sort()).toEqual(documented.sort());
  const count = (pattern: RegExp) => sources.reduce((sum, text) => sum + [...text.matchAll(pattern)].length, 0);
  // All calls, except console.error of `npm run migration`, and the log line of a request, at debug or info.
  expect(logged.length).toBe(count(/\.(error|fatal)\(/g) - 1 + count(/\blog\[[^\]]+\]\(/g) - 1);
});

const SOURCE = { type: "prometheus", uid: "$" + "{datasource}" };

test("the panels of the dashboard have unique ids, do not overlap, and use the data source variable", () => {
  const panels = readPanels();
  expect(panels.length).toBeGreaterThan(15);
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
    expect(x + w).toBeLessThanOrEqual(24);
    return Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`);
  });
  expect(new Set(cells).size).toBe(cells.length);
  const charts = panels.filter(({ type }) => type !== "row");
  for (const { id, datasource, targets = [] } of charts)
    for (const source of [datasource, ...targets.map((target) => target.datasource)])
      expect(source, `panel ${id}`).toEqual(SOURCE);
});
