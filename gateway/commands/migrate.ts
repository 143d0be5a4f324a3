import type { Command } from "commander";
import { notes } from "./help.js";
import { print, withJson } from "./print.js";

/** `migrate`. */
export function addMigrate(program: Command): void {
  withJson(program.command("migrate"))
    .description("bring the database to the current schema")
    .option("--accept-new-secret", "use the newest of APP_SECRETS though the one in use is lost (see below)")
    .addHelpText(
      "after",
      notes(`
Wants DATABASE_URL. Safe to run from several processes at once, and again at any time. Where APP_SECRETS is unset it
stores one random secret in the database. It refuses a database that a newer version has migrated, and APP_SECRETS
that this database does not know. --accept-new-secret overrides the latter: e-mail addresses sealed with a secret that is
not listed stay closed, cursors signed with it are invalid, and repeats of creates made under it make second forms.`),
    )
    .action(async (options: { acceptNewSecret?: boolean }, command: Command) => {
      const { settingsWithDatabase } = await import("./environment.js");
      const { CommandFailure } = await import("./failure.js");
      const { bringUpToDate } = await import("./bring-up-to-date.js");
      const report = (line: string) => void process.stderr.write(`${line}\n`);
      const settings = settingsWithDatabase();
      if (options.acceptNewSecret && !settings.APP_SECRETS) {
        throw new CommandFailure("--accept-new-secret: APP_SECRETS is not set.", 2);
      }
      const { applied } = await bringUpToDate(settings, report, options);
      const text = applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The database was up to date.";
      print(command, { applied }, text);
    });
}
