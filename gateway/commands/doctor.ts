import type { Command } from "commander";
import { SettingsError } from "../../server/config.js";
import { DATABASE_HELP } from "../cli/command.js";
import { notes } from "../cli/help.js";
import { print, withJson } from "../cli/print.js";
import { wholeNumberFrom } from "../cli/readers.js";
import type { Report } from "../doctor/examine.js";
import { printableLine } from "../process/terminal.js";

export function addDoctor(program: Command): void {
  withJson(program.command("doctor"))
    .description("check the settings, the database and other dependencies, and suggest fixes")
    .option("--processes <number>", "gateway processes, on all machines together", wholeNumberFrom(1), 1)
    .option("--no-worker", "the processes run as `serve --no-worker`")
    .addHelpText(
      "after",
      notes(`
Changes nothing, because it rolls back what it writes, and sends no mail. Run it with the same environment as the service. Each
check is ok, warning, failed, or skipped if the database check failed. The exit code is 1 if a check failed.

${DATABASE_HELP}

Example:
  guest-forms doctor --processes 8`),
    )
    .action(async (options: DoctorOptions, command: Command) => {
      const checks = await runChecks(options);
      const ok = checks.every(({ status }) => status !== "failed");
      print(command, { ok, checks }, formatReports(checks));
      if (!ok) process.exitCode = 1;
    });
}

interface DoctorOptions {
  processes: number;
  worker: boolean;
}

/** Invalid settings are a failed check. */
async function runChecks(options: DoctorOptions): Promise<Report[]> {
  const { readSettingsOrDev } = await import("../cli/environment.js");
  const { examine } = await import("../doctor/examine.js");
  try {
    return await examine({ settings: readSettingsOrDev(), env: process.env, ...options });
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
