import type { Command } from "commander";
import { notes } from "./help.js";
import { print, withJson } from "./print.js";

export function addMigrate(program: Command): void {
  withJson(program.command("migrate"))
    .description("migrate the database to the current schema")
    .option(
      "--accept-new-secret",
      "use the first of APP_SECRETS even if the previous secret is lost (see below)",
    )
    .addHelpText(
      "after",
      notes(`
Requires DATABASE_URL. Safe to run concurrently and repeatedly. If APP_SECRETS is unset, it stores a random secret in
the database. Fails if migrations are pending and another version has migrated the database, or if the database does not
know APP_SECRETS.

--accept-new-secret skips the check of APP_SECRETS. Email addresses encrypted with a lost secret stay unreadable, cursors
signed with it are invalid, and retries of creates made with it create second forms.`),
    )
    .action(async (options: { acceptNewSecret?: boolean }, command: Command) => {
      const { readSettingsWithDatabase } = await import("./environment.js");
      const { CommandFailure } = await import("./failure.js");
      const { prepareDatabase } = await import("./prepare-database.js");
      const report = (line: string) => void process.stderr.write(`${line}\n`);
      const settings = readSettingsWithDatabase();
      if (options.acceptNewSecret && !settings.APP_SECRETS) {
        throw new CommandFailure("--accept-new-secret: APP_SECRETS is not set.", 2);
      }
      const { applied } = await prepareDatabase(settings, report, options);
      const text =
        applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The database is already up to date.";
      print(command, { applied }, text);
    });
}
