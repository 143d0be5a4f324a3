import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings, settingsSchema } from "../../server/config.js";
import { operatingBlock, runFromPage, runScript } from "../support/operating-page.js";

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");
const UNIT = "guest-forms@.service";
const unit = read(`deploy/${UNIT}`);
const value = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";
const ROOT = "/opt/guest-forms";
/** In CI, a missing program is a failure. */
const canVerify = Boolean(process.env.CI) || spawnSync("systemd-analyze", ["--version"]).status === 0;

test("the unit runs the command that operating.md installs, and migrates first", () => {
  const { bin } = JSON.parse(read("package.json")) as { bin: Record<string, string> };
  const command = join(ROOT, String(bin["guest-forms"]));
  expect(value("ExecStartPre")).toBe(`${command} migrate`);
  expect(value("ExecStart")).toBe(`${command} serve`);
  const page = read("gateway/docs/operating.md");
  expect(page).toContain(ROOT);
  expect(page).toContain(`deploy/${UNIT}`);
});

test("each instance has its own ports, which guest-forms.env does not override", () => {
  const variables = value("Environment")
    .replaceAll("%i", "8002")
    .split(" ")
    .map((text) => text.split("="));
  expect(readSettings(Object.fromEntries(variables))).toMatchObject({ PORT: 8002, INTERNAL_PORT: 18_002 });
  expect(read("deploy/guest-forms.env")).not.toMatch(/^(INTERNAL_)?PORT=/m);
});

test("TimeoutStopSec is longer than a graceful shutdown", () => {
  const [, delay] = /^DRAIN_DELAY_SECONDS=(\d+)$/m.exec(read("deploy/guest-forms.env")) ?? [];
  const { DRAIN_SECONDS, DRAIN_DELAY_SECONDS } = readSettings({ DRAIN_DELAY_SECONDS: delay });
  expect(Number(value("TimeoutStopSec"))).toBeGreaterThan(DRAIN_SECONDS + DRAIN_DELAY_SECONDS);
});

test.skipIf(!canVerify)("systemd accepts the unit", () => {
  const folder = mkdtempSync(join(tmpdir(), "guest-forms-unit-"));
  try {
    const file = join(folder, UNIT);
    // The folder of this checkout may have spaces.
    writeFileSync(file, unit.replaceAll(new RegExp(`${ROOT}(/\\S+)`, "g"), `"${packageRoot()}$1"`));
    const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], {
      encoding: "utf8",
    });
    const messages = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("guest-forms@"));
    expect(messages).toEqual([]);
    expect(status).toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Of `systemd-analyze security`: from 0 (no risk) to 100. */
const MAX_EXPOSURE = 20;

test.skipIf(!canVerify)("systemd rates the unit's exposure at 2.0 of 10 or less", () => {
  const args = ["security", "--no-pager", "--offline=true", `--threshold=${MAX_EXPOSURE}`];
  const { status, stdout } = spawnSync("systemd-analyze", [...args, join(packageRoot(), "deploy", UNIT)], {
    encoding: "utf8",
  });
  expect(stdout).toMatch(/Overall exposure level for guest-forms@\S*.service: \d/);
  expect(status, stdout).toBe(0);
});

test("guest-forms.env has valid settings: all that operating.md sets, and those for a load balancer", async () => {
  const file = join(packageRoot(), "deploy/guest-forms.env");
  const { stdout: output } = await runFromPage(operatingBlock(". /etc/guest-forms.env"), (script) =>
    runScript(`${script}\nenv -0`, { replace: { "/etc/guest-forms.env": `"${file}"` } }),
  );
  const entries = output.split("\0").flatMap((entry) => {
    const [name = "", ...text] = entry.split("=");
    return name in settingsSchema.shape ? [[name, text.join("=")]] : [];
  });
  const settings = Object.fromEntries(entries);
  const exported = [...read("gateway/docs/operating.md").matchAll(/^ *export (\w+)=/gm)].map(([, name]) => name);
  const { TRUST_PROXY, DRAIN_DELAY_SECONDS, PUBLIC_URL, ...others } = settings;
  expect({ TRUST_PROXY, DRAIN_DELAY_SECONDS }).toEqual({ TRUST_PROXY: "1", DRAIN_DELAY_SECONDS: "3" });
  expect(PUBLIC_URL).toMatch(/^https:/);
  expect(Object.keys(others).sort()).toEqual(exported.sort());
  expect(settings.APP_SECRETS).toBe("");
  expect(readSettings({ ...settings, APP_SECRETS: "s".repeat(32) }).SMTP_FROM).toBe(settings.SMTP_FROM);
  expect(value("EnvironmentFile")).toBe("/etc/guest-forms.env");
});
