import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { spawnNode } from "../harness.js";
import { scaleRounds } from "./rounds.js";
import type { Report } from "./soak-report.js";

const SECONDS = scaleRounds(600, 45);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "guest-forms-soak-report-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it("under mixed load with random faults, the database matches every acknowledged response, and every guest gets an email", async () => {
  const file = join(folder, "report.json");
  const script = join(packageRoot(), "test/faults/soak.mjs");
  const args = ["--minutes", String(SECONDS / 60), "--rate", "100", "--report", file];
  const { code, stdout, stderr } = await spawnNode([script, ...args]).done;
  console.info(stdout);
  expect(code, stderr).toBe(0);
  const report = JSON.parse(await readFile(file, "utf8")) as Report;
  expect(report.violations).toEqual([]);
  expect(report.creates).toBeGreaterThan(100);
  expect(Object.keys(report.faults).length).toBeGreaterThan(1);
  expect(report.emails.received).toBeGreaterThanOrEqual(report.emails.expected);
});
