import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { packageRoot } from "../../prisma/package-root.js";

export const RULES_PATH = join(packageRoot(), "deploy/prometheus/alerts.yml");

export interface AlertRule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook: string };
}

/** The alerts of deploy/prometheus/alerts.yml. */
export function readAlertRules(): AlertRule[] {
  const { groups } = parse(readFileSync(RULES_PATH, "utf8")) as { groups: { rules: AlertRule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}
