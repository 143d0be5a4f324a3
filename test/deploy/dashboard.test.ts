import { expect, test } from "vitest";
import { readAlertRules } from "../alerts/alert-rules.js";
import { readDashboard, readQueries } from "../alerts/dashboard.js";

const { panels, templating, schemaVersion, uid, title } = readDashboard();
const charts = panels.filter(({ type }) => type !== "row");
const SOURCE = { type: "prometheus", uid: "$" + "{datasource}" };

test("the dashboard has a title, a schema version and panels with unique ids that do not overlap", () => {
  expect({ title, uid, schemaVersion }).toEqual({
    title: "guest-forms",
    uid: "guest-forms",
    schemaVersion: 38,
  });
  expect(charts.length).toBeGreaterThan(15);
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
    expect(x + w).toBeLessThanOrEqual(24);
    return Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`);
  });
  expect(new Set(cells).size).toBe(cells.length);
});

test("every panel of the dashboard uses the data source variable, and every variable in a query is defined", () => {
  const names = templating.list.map(({ name }) => name);
  expect(names).toEqual(["datasource", "instance"]);
  for (const { title, datasource, targets = [] } of charts) {
    expect(targets.length, title).toBeGreaterThan(0);
    expect([datasource, ...targets.map((target) => target.datasource)], title).toEqual(
      [SOURCE, ...targets].map(() => SOURCE),
    );
    expect(new Set(targets.map(({ refId }) => refId)).size, title).toBe(targets.length);
  }
  // `readQueries` replaces the known variables.
  expect(readQueries().filter((expr) => expr.includes("$"))).toEqual([]);
});

test("the dashboard has a panel for every alert, and names no alert that does not exist", () => {
  const alerts = readAlertRules().map(({ alert }) => alert);
  const named = charts.flatMap(({ description = "" }) => description.match(/GuestForms\w+/g) ?? []);
  expect([...new Set(named)].sort()).toEqual(alerts.sort());
});
