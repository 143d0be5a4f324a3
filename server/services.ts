import { checkHistory } from "../prisma/history.js";
import { assertSupportedServer } from "../prisma/session.js";
import type { Log, Services } from "./access/context.js";
import type { Settings } from "./config.js";
import { type DbHooks, openDb } from "./database/db.js";
import { HolderLimit } from "./database/holder-limit.js";
import { InFlightCreates } from "./database/in-flight-creates.js";
import { deriveKeyring } from "./encryption.js";
import { registerSecrets } from "./secrets/checks.js";

/**
 * Derives the keys and opens the database. Throws if DATABASE_URL or APP_SECRETS is not set, the database is a standby or not a
 * supported PostgreSQL, or it has not been migrated,
 * UnknownMigrations if another version has migrated it, and SecretsRejected if APP_SECRETS do not match this database.
 */
export async function openServices(
  settings: Settings,
  log: Pick<Log, "warn">,
  hooks: Pick<DbHooks, "observe" | "onFailure"> = {},
): Promise<{ services: Services; close(): Promise<void> }> {
  const { APP_SECRETS = [] } = settings;
  const keyring = deriveKeyring(APP_SECRETS);
  const db = openDb(settings, {
    // Not the error: pg attaches the client, with all its statements.
    onError: ({ message, code }) => log.warn({ reason: message, code }, "a database connection was lost"),
    ...hooks,
  });
  try {
    await assertSupportedServer(db.pool);
    await checkHistory(db.pool);
    await registerSecrets(db, APP_SECRETS);
    const holderLimit = new HolderLimit(settings.DATABASE_CONNECTIONS_PER_HOLDER, settings.DATABASE_CONNECT_TIMEOUT_MS);
    const inFlightCreates = new InFlightCreates(db);
    return {
      services: { db, keyring, settings, holderLimit, inFlightCreates },
      close: () => db.close(),
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}
