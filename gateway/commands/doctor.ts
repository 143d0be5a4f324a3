import { type Command, InvalidArgumentError } from "commander";
import { DATABASE_HELP } from "../cli/data-command.js";
import { notes } from "../cli/help.js";
import { withJson } from "../cli/print.js";
import { parseWholeNumber } from "../cli/values.js";
import type { DoctorOptions } from "./actions/doctor.js";

export function addDoctor(program: Command): void {
  withJson(program.command("doctor"))
    .description("check the settings, the database and other dependencies, and suggest fixes")
    .option("--processes <number>", "gateway processes, on all machines together", parseProcesses, 1)
    .option("--no-worker", "the processes run as `serve --no-worker`")
    .addHelpText(
      "after",
      notes(`
Changes nothing and sends no mail. Run it with the same environment as the service. Each check is ok, warning, failed, or
skipped if the database check failed. The exit code is 1 if a check failed.

${DATABASE_HELP}

Example:
  guest-forms doctor --processes 8`),
    )
    .action(async (options: DoctorOptions, command: Command) => {
      const { doctor } = await import("./actions/doctor.js");
      await doctor(options, command);
    });
}

function parseProcesses(text: string): number {
  const number = parseWholeNumber(text);
  if (number < 1) throw new InvalidArgumentError("It must be at least 1.");
  return number;
}
