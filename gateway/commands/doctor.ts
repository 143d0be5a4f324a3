import { SettingsError } from "../../server/config.js";
import { DATABASE_HELP, localCommand } from "../cli/command.js";
import { flag, optionWithDefault } from "../cli/fields.js";
import { wholeNumberFrom } from "../cli/readers.js";
import type { Report } from "../doctor/examine.js";
import { printableLine } from "../runtime/terminal.js";

export const doctor = localCommand({
  description: "check the settings, the database and other dependencies, and suggest fixes",
  input: {
    processes: optionWithDefault(
      "--processes <number>",
      "gateway processes, on all machines together",
      wholeNumberFrom(1),
      "1",
    ),
    worker: flag("--no-worker", "the processes run as `serve --no-worker`", false),
  },
  help: `
Changes nothing, because it rolls back what it writes, and sends no mail. Run it with the same environment as the service. Each
check is ok, warning, failed, or skipped if the database check failed. The exit code is 1 if a check failed.

${DATABASE_HELP}`,
  examples: ["guest-forms doctor --processes 8"],
  async run({ processes, worker = true }) {
    const checks = await runChecks({ processes, worker });
    return { ok: checks.every(({ status }) => status !== "failed"), checks };
  },
  text: ({ checks }) => formatReports(checks),
  problem: ({ ok }) => (ok ? undefined : ""),
});

/** Invalid settings are a failed check. */
async function runChecks(options: { processes: number; worker: boolean }): Promise<Report[]> {
  const { readSettingsOrDev } = await import("../cli/environment.js");
  const { examine } = await import("../doctor/examine.js");
  try {
    const reports = await examine({ settings: readSettingsOrDev(), env: process.env, ...options });
    return reports.map(({ problems: _ofConsole, ...report }) => report);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return [{ name: "settings", status: "failed", message: error.message.replaceAll("\n", " ") }];
  }
}

function formatReports(checks: Report[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks
    .map(({ status, name, message }) => `${status.padEnd(7)}  ${name.padEnd(width)}  ${printableLine(message)}`)
    .join("\n");
}
