import type { Command } from "commander";
import { notes } from "./help.js";
import { print, withJson } from "./print.js";

/** `migrate`. */
export function addMigrate(program: Command): void {
  withJson(program.command("migrate"))
    .description("bring the database to the current schema")
    .addHelpText(
      "after",
      notes(`
Wants DATABASE_URL. Safe to run from several processes at once, and again at any time. Where APP_SECRETS is unset it
stores one random secret in the database. It refuses a database that a newer version has migrated.`),
    )
    .action(async (_options: object, command: Command) => {
      const { settingsWithDatabase } = await import("./environment.js");
      const { bringUpToDate } = await import("./bring-up-to-date.js");
      const report = (line: string) => void process.stderr.write(`${line}\n`);
      const { applied } = await bringUpToDate(settingsWithDatabase(), report);
      const text = applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The database was up to date.";
      print(command, { applied }, text);
    });
}
