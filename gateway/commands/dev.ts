import type { Command } from "commander";
import { notes } from "../cli/help.js";
import { withJson } from "../cli/print.js";
import { settingsNotes } from "../cli/settings-help.js";
import type { DevOptions } from "../run/dev.js";
import { withAddress } from "./serve.js";

export function addDev(program: Command): void {
  withAddress(withJson(program.command("dev")))
    .description("run the service with demo data on an embedded Postgres, without any setup")
    .option("--fresh", "delete the database and demo keys in .data/ and create new ones")
    .addHelpText(
      "after",
      notes(`
Keeps its data in .data/ in the current folder for the next start: the database (unless DATABASE_URL is set), and two
demo keys in .data/demo.json. While it runs, other commands started in this folder use its database. Without SMTP_URL,
notifications are printed to standard error. If port 3000 is in use, and neither PORT nor --port is set, it uses the
next free port. Ctrl-C stops it gracefully; a second Ctrl-C stops it immediately.

Example:
  guest-forms dev --port 4000`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (options: DevOptions, command: Command) => {
      const { dev } = await import("../run/dev.js");
      await dev(options, command);
    });
}
