import { createServer } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import { CHECK_NAMES } from "../../gateway/doctor/examine.js";
import { openTestServices } from "../support/factories.js";
import { listenLocally } from "../support/network.js";
import { runCli } from "../support/processes.js";

const CHECKS = ["database", ...CHECK_NAMES];

const services = await openTestServices();

/** Runs the command as a process. */
const runDoctor = (args: string[], env: Record<string, string>) =>
  runCli(["doctor", ...args], { env: { DATABASE_URL: services.db.url, ...env } });

/** A server that accepts connections and never responds. */
const silentServer = createServer(() => {});
const port = await listenLocally(silentServer);
const silentUrl = (scheme: string) => `${scheme}://someone:s3cr3t@127.0.0.1:${port}/1`;
/** `doctor` with only such servers. It takes 15 s, until its timeouts, so the other tests run meanwhile. */
const doctorWithSilentServers = runDoctor(["--json"], {
  DATABASE_URL: silentUrl("postgres"),
  DATABASE_CONNECT_TIMEOUT_MS: "60000",
  REDIS_URL: silentUrl("redis"),
  SMTP_URL: silentUrl("smtp"),
  SMTP_FROM: "Forms <forms@example.org>",
  FORM_URL_TEMPLATE: "https://forms.example.org/{publicId}",
});

afterAll(() => void silentServer.close());

describe("guest-forms doctor", { timeout: 240_000 }, () => {
  test("doctor prints one line per check, and exits with 0 if there are only warnings", async () => {
    const { stdout, stderr, code } = await runDoctor([], { RATE_LIMIT_MX: "1" });
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.slice(9, 24).trim())).toEqual(CHECKS);
    expect(lines[CHECKS.indexOf("settings")]).toMatch(/^warning {2}settings +Unknown settings: RATE_LIMIT_MX /);
  });

  test("invalid settings are failed checks", async () => {
    const { stdout, stderr, code } = await runDoctor(["--json"], { PORT: "abc", APP_SECRETS: "hunter2" });
    expect({ stderr, code }).toEqual({ stderr: "", code: 1 });
    const message = expect.stringMatching(/^PORT is "abc".* APP_SECRETS is a/);
    const checks = [{ name: "settings", status: "failed", message }];
    expect(JSON.parse(stdout)).toEqual({ ok: false, checks });
    expect(stdout).not.toContain("hunter2");
  });

  test("doctor exits with 1 if servers never respond, and prints no secret", async () => {
    const { stdout, stderr, code } = await doctorWithSilentServers;
    expect({ stderr, code }).toEqual({ stderr: "", code: 1 });
    const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: { name: string; status: string }[] };
    expect(ok).toBe(false);
    expect(Object.fromEntries(checks.map(({ name, status }) => [name, status]))).toEqual({
      ...Object.fromEntries(CHECKS.map((name) => [name, "skipped"])),
      database: "failed",
      settings: "ok",
      links: "ok",
      retention: "ok",
      "email templates": "ok",
      "mail server": "failed",
      redis: "failed",
    });
    expect(stdout).not.toMatch(/s3cr3t|a-secret/);
  });
});
