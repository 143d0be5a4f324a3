import type { Command } from "commander";
import { SettingsError } from "../../../server/config.js";
import { readSettingsOrDev } from "../../cli/environment.js";
import { print } from "../../cli/print.js";
import { examine, type Report } from "../../doctor/examine.js";

export interface DoctorOptions {
  processes: number;
  /** Whether the processes also send notifications. */
  worker: boolean;
}

/** Prints the result of each check. Exit code 1 if one failed. */
export async function doctor(options: DoctorOptions, command: Command): Promise<void> {
  const checks = await examineService(options);
  const ok = checks.every(({ status }) => status !== "failed");
  print(command, { ok, checks }, formatReports(checks));
  if (!ok) process.exitCode = 1;
}

async function examineService({ processes, worker }: DoctorOptions): Promise<Report[]> {
  try {
    return await examine({ settings: readSettingsOrDev(), env: process.env, processes, worker });
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return [{ name: "settings", status: "failed", message: error.message.replaceAll("\n", " ") }];
  }
}

function formatReports(checks: Report[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks.map(({ status, name, message }) => `${status.padEnd(7)}  ${name.padEnd(width)}  ${message}`).join("\n");
}
