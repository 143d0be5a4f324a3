import {
  migrate,
  type PendingMigration,
  planMigrations,
  type Queryable,
  UnknownMigrations,
} from "../../prisma/migrate.js";
import { storeRoleSettings } from "../../prisma/role-settings.js";
import { sessionSettings } from "../../server/database/pool.js";
import { checkSecrets, registerMigratedSecrets, SecretsRejected } from "../../server/secrets/checks.js";
import type { SettingsWithDatabase } from "../cli/environment.js";
import { CommandFailure, explain } from "../cli/failure.js";

/**
 * Migrates the database, stores the session settings for its role if it is behind a pooler, and registers the secrets.
 * Throws a CommandFailure.
 */
export async function prepareDatabase(
  settings: SettingsWithDatabase,
  onProgress: (line: string) => void,
  { acceptNewSecret = false } = {},
): Promise<{ applied: string[] }> {
  const { DATABASE_URL: pooledUrl, DATABASE_PREPARED, APP_SECRETS } = settings;
  const directUrl = settings.DATABASE_DIRECT_URL ?? pooledUrl;
  try {
    const migrated = await migrate(directUrl, {
      onProgress,
      check: checkOf(settings, acceptNewSecret),
      finish: (database) => registerMigratedSecrets(database, APP_SECRETS, { acceptNewest: acceptNewSecret }),
    }).catch(explainMigrationError);
    if (!DATABASE_PREPARED) {
      const roleSettings = sessionSettings(settings);
      await storeRoleSettings({ directUrl, pooledUrl, settings: roleSettings, onProgress });
    }
    return migrated;
  } catch (error) {
    throw explain(error, { databaseUrl: directUrl });
  }
}

const checkOf =
  ({ APP_SECRETS }: SettingsWithDatabase, acceptNewSecret: boolean) =>
  async (database: Queryable) => {
    if (!acceptNewSecret) await checkSecrets(database, APP_SECRETS);
  };

/** Returns the migrations that `prepareDatabase` would apply. Changes nothing. Throws a CommandFailure. */
export async function planDatabase(
  settings: SettingsWithDatabase,
  { acceptNewSecret = false } = {},
): Promise<PendingMigration[]> {
  const databaseUrl = settings.DATABASE_DIRECT_URL ?? settings.DATABASE_URL;
  try {
    const check = checkOf(settings, acceptNewSecret);
    return await planMigrations(databaseUrl, { check }).catch(explainMigrationError);
  } catch (error) {
    throw explain(error, { databaseUrl });
  }
}

/** Adds what to do to an error of `migrate`. */
function explainMigrationError(error: Error): never {
  if (error.cause instanceof SecretsRejected) throw error.cause;
  if (/through a connection pooler/.test(error.message)) {
    throw new CommandFailure(`${error.message}: set DATABASE_DIRECT_URL to the address of PostgreSQL itself.`);
  }
  if (error.cause instanceof UnknownMigrations) {
    throw new CommandFailure(
      `${error.message}: run a newer version of guest-forms, or start with an empty database (\`guest-forms dev --fresh\` empties the one in .data/).`,
    );
  }
  throw error;
}
