import { type Command, InvalidArgumentError } from "commander";
import type { DoctorOptions } from "./doctor-action.js";
import { notes } from "./help.js";
import { withJson } from "./print.js";
import { wholeNumber } from "./values.js";

/** `doctor`. */
export function addDoctor(program: Command): void {
  withJson(program.command("doctor"))
    .description("check the settings, the database and what else the service needs, and say what to do")
    .option("--processes <number>", "gateway processes, on all machines together", processes, 1)
    .option("--no-worker", "these processes send no notifications (`serve --no-worker`)")
    .addHelpText(
      "after",
      notes(`
It changes nothing and sends no mail. Run it with the environment of the service. Each line is ok, warning, failed, or
skipped where the database cannot be reached. The exit code is 1 if anything failed.

The database is the one of DATABASE_URL. Where that is unset, and NODE_ENV is not "production", it is the one of a
\`guest-forms dev\` running in the current folder.

Example:
  guest-forms doctor --processes 8`),
    )
    .action(async (options: DoctorOptions, command: Command) => {
      const { doctor } = await import("./doctor-action.js");
      await doctor(options, command);
    });
}

function processes(text: string): number {
  const number = wholeNumber(text);
  if (number < 1) throw new InvalidArgumentError("It must be at least 1.");
  return number;
}
