import type { Command } from "commander";
import { migrate } from "../../../prisma/migrate.js";
import { storeRoleSettings } from "../../../prisma/role-settings.js";
import { sessionSettings } from "../../../server/db.js";
import { dbSettings } from "../../../server/services.js";
import { settingsWithDatabase, type WithDatabase } from "../environment.js";
import { CommandFailure, explain } from "../failure.js";
import { print } from "../print.js";

/** Migrates, and prints what it applied. */
export async function migrateDatabase(command: Command): Promise<void> {
  const settings = settingsWithDatabase();
  try {
    const { applied } = await bringUpToDate(settings, (line) => process.stderr.write(`${line}\n`));
    const text = applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The database was up to date.";
    print(command, { applied }, text);
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_DIRECT_URL ?? settings.DATABASE_URL });
  }
}

/** Migrates the database and, where a pooler is in front of it, has its role's sessions begin with our settings. */
export async function bringUpToDate(
  settings: WithDatabase,
  onProgress: (line: string) => void,
): Promise<{ applied: string[] }> {
  const { DATABASE_URL: pooledUrl, DATABASE_PREPARED, APP_SECRETS } = settings;
  const directUrl = settings.DATABASE_DIRECT_URL ?? pooledUrl;
  const migrated = await migrate(directUrl, { onProgress, storeSecret: !APP_SECRETS }).catch((error) => {
    if (!/through a connection pooler/.test(error.message)) throw error;
    throw new CommandFailure(`${error.message} Set DATABASE_DIRECT_URL to that.`);
  });
  if (!DATABASE_PREPARED) {
    const wanted = sessionSettings(dbSettings(settings));
    await storeRoleSettings({ directUrl, pooledUrl, settings: wanted, onProgress });
  }
  return migrated;
}
