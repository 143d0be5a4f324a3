import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

interface Panel {
  id: number;
  type: "row" | "timeseries";
  datasource?: object;
  gridPos: { h: number; w: number; x: number; y: number };
  targets?: { datasource: object; expr: string }[];
}

export const readPanels = (): Panel[] =>
  JSON.parse(readFileSync(join(packageRoot(), "deploy/grafana/dashboard.json"), "utf8")).panels;

/** The PromQL of all panels, with Grafana's variables replaced by all gateways and a window of a few scrapes. */
export const readQueries = (): string[] =>
  readPanels().flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr.replaceAll("$__rate_interval", "10s").replaceAll("$instance", ".*")),
  );
