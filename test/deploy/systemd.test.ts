import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings } from "../../server/config.js";

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");
const unit = read("deploy/guest-forms.service");
const value = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";
const ROOT = "/opt/guest-forms";
/** In CI, a missing program is a failure. */
const canVerify = Boolean(process.env.CI) || spawnSync("systemd-analyze", ["--version"]).status === 0;

test("the unit runs the command that operating.md installs, and migrates first", () => {
  const { bin } = JSON.parse(read("package.json")) as { bin: Record<string, string> };
  const command = join(ROOT, String(bin["guest-forms"]));
  expect(value("ExecStartPre")).toBe(`${command} migrate`);
  expect(value("ExecStart")).toBe(`${command} serve --workers auto`);
  const page = read("gateway/docs/operating.md");
  expect(page).toContain(ROOT);
  expect(page).toContain("deploy/guest-forms.service");
});

test("TimeoutStopSec is longer than a graceful shutdown", () => {
  const { DRAIN_SECONDS, DRAIN_DELAY_SECONDS } = readSettings({});
  expect(Number(value("TimeoutStopSec"))).toBeGreaterThan(DRAIN_SECONDS + DRAIN_DELAY_SECONDS);
});

test.skipIf(!canVerify)("systemd accepts the unit", () => {
  const folder = mkdtempSync(join(tmpdir(), "guest-forms-unit-"));
  try {
    const file = join(folder, "guest-forms.service");
    writeFileSync(file, unit.replaceAll(ROOT, packageRoot()));
    const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], {
      encoding: "utf8",
    });
    const messages = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("guest-forms.service"));
    expect(messages).toEqual([]);
    expect(status).toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
