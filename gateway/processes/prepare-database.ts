import { type Queryable, UnknownMigrations } from "../../prisma/history.js";
import { migrate, planMigrations } from "../../prisma/migrate.js";
import { storeRoleSettings } from "../../prisma/role-settings.js";
import { sessionSettings } from "../../server/database/pool.js";
import { SecretsRejected } from "../../server/encryption.js";
import { checkSecrets, registerMigratedSecrets } from "../../server/secrets/checks.js";
import type { SettingsWithDatabase } from "../cli/environment.js";
import { CommandFailure, explain, OTHER_VERSION_ADVICE } from "../cli/failure.js";

/**
 * Migrates the database, stores the session settings for its role if it is behind a pooler, and registers the secrets.
 * Throws a CommandFailure.
 */
export const prepareDatabase = (
  settings: SettingsWithDatabase,
  onProgress: (line: string) => void,
  { acceptNewSecret = false } = {},
): Promise<{ applied: string[] }> =>
  withoutPooler(settings, async (directUrl) => {
    const migrated = await migrate(directUrl, {
      onProgress,
      check: async (database) => acceptNewSecret || checkSecrets(database, settings.APP_SECRETS),
      finish: (database) => registerMigratedSecrets(database, settings.APP_SECRETS, { acceptNewest: acceptNewSecret }),
    });
    if (!settings.DATABASE_PREPARED) {
      const roleSettings = sessionSettings(settings);
      await storeRoleSettings({ directUrl, pooledUrl: settings.DATABASE_URL, settings: roleSettings, onProgress });
    }
    return migrated;
  });

/** Returns the migrations that `prepareDatabase` would apply. Changes nothing. Throws a CommandFailure. */
export const planDatabase = (settings: SettingsWithDatabase, { acceptNewSecret = false } = {}) =>
  withoutPooler(settings, (directUrl) => {
    const check = async (database: Queryable) => acceptNewSecret || checkSecrets(database, settings.APP_SECRETS);
    return planMigrations(directUrl, { check });
  });

async function withoutPooler<Result>(
  { DATABASE_URL, DATABASE_DIRECT_URL: databaseUrl = DATABASE_URL }: SettingsWithDatabase,
  work: (directUrl: string) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(databaseUrl);
  } catch (error) {
    throw explain(error instanceof Error ? withAdvice(error) : error, { databaseUrl });
  }
}

/** Adds what to do to an error of a migration. */
function withAdvice(error: Error): unknown {
  if (error.cause instanceof SecretsRejected) return error.cause;
  if (/through a connection pooler/.test(error.message)) {
    return new CommandFailure(`${error.message}: set DATABASE_DIRECT_URL to the address of PostgreSQL itself.`);
  }
  if (!(error.cause instanceof UnknownMigrations)) return error;
  return new CommandFailure(`${error.message}: ${OTHER_VERSION_ADVICE}`);
}
