import { expect, test } from "vitest";
import { readPanels } from "../alerts/dashboard.js";

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
