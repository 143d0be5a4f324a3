import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

interface DataSource {
  type: string;
  uid: string;
}

interface Panel {
  id: number;
  type: "row" | "timeseries";
  title: string;
  description?: string;
  datasource?: DataSource;
  gridPos: { h: number; w: number; x: number; y: number };
  targets?: { refId: string; datasource: DataSource; expr: string; legendFormat: string }[];
}

export interface Dashboard {
  title: string;
  uid: string;
  schemaVersion: number;
  templating: { list: { name: string; type: string; query: string | { query: string } }[] };
  panels: Panel[];
}

export const readDashboard = (): Dashboard =>
  JSON.parse(readFileSync(join(packageRoot(), "deploy/grafana/dashboard.json"), "utf8"));

/** The PromQL of all panels, with Grafana's variables replaced by all gateways and a window of a few scrapes. */
export const readQueries = (): string[] =>
  readDashboard().panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr.replaceAll("$__rate_interval", "10s").replaceAll("$instance", ".*")),
  );
