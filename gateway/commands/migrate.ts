import type { PendingMigration } from "../../prisma/migrate.js";
import { localCommand } from "../cli/command.js";
import { flag } from "../cli/fields.js";
import { printLine } from "../runtime/terminal.js";

export const migrate = localCommand({
  description: "migrate the database to the current schema",
  input: {
    acceptNewSecret: flag(
      "--accept-new-secret",
      "use the first of APP_SECRETS even if the previous secret is lost (see below)",
      true,
    ),
    dryRun: flag("--dry-run", "print the SQL of the pending migrations and their locks, and change nothing", true),
  },
  help: `
Requires DATABASE_URL and APP_SECRETS. Safe to run concurrently and repeatedly. Fails if migrations are pending and
another version has migrated the database, or if the database does not know APP_SECRETS.

Requests continue during a migration. It waits at most 0.2 s for a lock at a time, for up to 10 minutes; to build an
index, until all open transactions have ended. After a crash or a failure, run it again.

--accept-new-secret skips the check of APP_SECRETS. Email addresses encrypted with a lost secret stay unreadable, cursors
signed with it are invalid, and retries of creates made with it create second forms.`,
  async run({ acceptNewSecret = false, dryRun }): Promise<{ pending: PendingMigration[] } | { applied: string[] }> {
    const { readSettingsWithDatabase } = await import("../cli/environment.js");
    const { planDatabase, prepareDatabase } = await import("../processes/prepare-database.js");
    const settings = readSettingsWithDatabase();
    if (dryRun) return { pending: await planDatabase(settings, { acceptNewSecret }) };
    const report = (line: string) => printLine(process.stderr, line);
    const { applied } = await prepareDatabase(settings, report, { acceptNewSecret });
    return { applied };
  },
  text(result) {
    if ("pending" in result) return result.pending.map(formatMigration).join("\n\n") || UP_TO_DATE;
    return result.applied.length > 0 ? `Applied ${result.applied.join(", ")}.` : UP_TO_DATE;
  },
});

const UP_TO_DATE = "The database is already up to date.";

const formatMigration = ({ name, sql }: PendingMigration) => `-- Migration ${name}\n\n${sql.trim()}`;
