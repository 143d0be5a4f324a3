import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { makeTempFolder } from "../support/run-tool.js";
import { RULES_PATH, readAlertRules } from "./alert-rules.js";
import { RULE_CASES, type RuleCases, SILENT_FOR_OTHERS } from "./rule-cases.js";

const SILENT_MINUTES = 120;

const folder = await makeTempFolder("rules");

describeWithBinary("promtool:prometheus", "the alert rules", (promtool) => {
  test("every alert has a case that fires it and one that does not", () => {
    expect(Object.keys(RULE_CASES)).toEqual(readAlertRules().map(({ alert }) => alert));
    for (const [alert, { fires, silent }] of Object.entries(RULE_CASES))
      expect([fires.length > 0, silent.length > 0], alert).toEqual([true, true]);
  });

  test.each(Object.entries(RULE_CASES))(
    "%s fires from the promised minute on, and stays silent below its threshold",
    (alert, cases) => {
      const file = join(folder, `${alert}.json`);
      writeFileSync(file, JSON.stringify(toPromtool(alert, cases)));
      expect(execFileSync(promtool, ["test", "rules", file], { encoding: "utf8", stdio: "pipe" })).toContain("SUCCESS");
    },
  );
});

/** A test file of promtool. It is YAML, of which JSON is a part. */
function toPromtool(alert: string, { fires, silent }: RuleCases) {
  const firing = `ALERTS{alertname="${alert}",alertstate="firing"}`;
  const expects = (expr: string, minute: number, value?: number) => ({
    expr: `count(${expr})`,
    eval_time: `${minute}m`,
    exp_samples: value === undefined ? [] : [{ labels: "{}", value }],
  });
  const group = (name: string, series: string[], checks: object[]) => ({
    name,
    interval: "1m",
    input_series: series.map((text) => ({ series: text.split(" ", 1)[0], values: text.slice(text.indexOf(" ") + 1) })),
    promql_expr_test: checks,
  });
  const common = SILENT_FOR_OTHERS.flatMap(([of, ...silentCase]) => (of === alert ? [] : [silentCase]));
  return {
    rule_files: [RULES_PATH],
    evaluation_interval: "1m",
    tests: [
      ...fires.map(([name, fromMinute, ...series]) =>
        group(name, series, [expects(firing, fromMinute - 1), expects(firing, fromMinute, 1)]),
      ),
      ...[...silent, ...common].map(([name, ...series]) =>
        group(name, series, [expects(`count_over_time(${firing}[${SILENT_MINUTES}m])`, SILENT_MINUTES)]),
      ),
    ],
  };
}
