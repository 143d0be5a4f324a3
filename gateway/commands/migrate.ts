import type { Command } from "commander";
import type { PendingMigration } from "../../prisma/migrate.js";
import { notes } from "../cli/help.js";
import { print, withJson } from "../cli/print.js";
import { printLine } from "../runtime/terminal.js";

export function addMigrate(program: Command): void {
  withJson(program.command("migrate"))
    .description("migrate the database to the current schema")
    .option("--accept-new-secret", "use the first of APP_SECRETS even if the previous secret is lost (see below)")
    .option("--dry-run", "print the SQL of the pending migrations and their locks, and change nothing")
    .addHelpText(
      "after",
      notes(`
Requires DATABASE_URL and APP_SECRETS. Safe to run concurrently and repeatedly. Fails if migrations are pending and
another version has migrated the database, or if the database does not know APP_SECRETS.

Requests continue during a migration. It waits at most 0.2 s for a lock at a time, for up to 10 minutes; to build an
index, until all open transactions have ended. After a crash or a failure, run it again.

--accept-new-secret skips the check of APP_SECRETS. Email addresses encrypted with a lost secret stay unreadable, cursors
signed with it are invalid, and retries of creates made with it create second forms.`),
    )
    .action(async (options: { acceptNewSecret?: boolean; dryRun?: boolean }, command: Command) => {
      const { readSettingsWithDatabase } = await import("../cli/environment.js");
      const { planDatabase, prepareDatabase } = await import("../processes/prepare-database.js");
      const report = (line: string) => printLine(process.stderr, line);
      const settings = readSettingsWithDatabase();
      if (options.dryRun) {
        const pending = await planDatabase(settings, options);
        return print(command, { pending }, formatPlan(pending));
      }
      const { applied } = await prepareDatabase(settings, report, options);
      const text = applied.length > 0 ? `Applied ${applied.join(", ")}.` : UP_TO_DATE;
      print(command, { applied }, text);
    });
}

const UP_TO_DATE = "The database is already up to date.";

function formatPlan(pending: PendingMigration[]): string {
  if (pending.length === 0) return UP_TO_DATE;
  return pending.map(({ name, sql }) => `-- Migration ${name}\n\n${sql.trim()}`).join("\n\n");
}
