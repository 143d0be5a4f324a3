import type { Command } from "commander";
import type { DevOptions } from "./dev-action.js";
import { notes } from "./help.js";
import { withJson } from "./print.js";
import { withAddress } from "./serve.js";
import { settingsNotes } from "./settings-help.js";

/** `dev`. */
export function addDev(program: Command): void {
  withAddress(withJson(program.command("dev")))
    .description("run the service on an embedded Postgres with demo data: nothing else is needed")
    .option("--fresh", "delete the database and the demo keys in .data/ first, and start with new ones")
    .addHelpText(
      "after",
      notes(`
Keeps everything in .data/ under the current folder: the database (unless DATABASE_URL is set), and the two demo keys
in .data/demo.json. The next start finds them again. While it runs, the other commands started in this folder use its
database. Without SMTP_URL it prints notifications on standard error. If 3000 is taken, and neither PORT nor --port is
given, it takes the next free port. Ctrl-C stops it, a second one at once.

Example:
  guest-forms dev --port 4000`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (options: DevOptions, command: Command) => {
      const { dev } = await import("./dev-action.js");
      await dev(options, command);
    });
}
