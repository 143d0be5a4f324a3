import { assertSupportedServer } from "../prisma/server-version.js";
import type { Settings } from "./config.js";
import type { Services } from "./context.js";
import { type DbHooks, openDb } from "./db.js";
import { InFlightCreates } from "./forms/in-flight-creates.js";
import { HolderLimit } from "./holder-limit.js";
import type { DbSettings } from "./pool.js";
import { registerSecrets } from "./secret-checks.js";
import { loadKeyring } from "./secrets.js";

/** Returns the database settings. Throws if DATABASE_URL is not set. */
export function dbSettings(settings: Settings): DbSettings {
  if (!settings.DATABASE_URL) throw new Error("DATABASE_URL is not set.");
  return {
    url: settings.DATABASE_URL,
    prepared: settings.DATABASE_PREPARED,
    poolSize: settings.DATABASE_POOL_SIZE,
    connectTimeoutMs: settings.DATABASE_CONNECT_TIMEOUT_MS,
    statementTimeoutMs: settings.DATABASE_STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: settings.DATABASE_LOCK_TIMEOUT_MS,
  };
}

/**
 * Opens the database and derives the keys. Throws if the database or the secrets are missing, and SecretsRejected if
 * APP_SECRETS do not match this database.
 */
export async function openServices(
  settings: Settings,
  log: { warn(facts: object, message: string): void },
  hooks: Pick<DbHooks, "observe" | "onFailure"> = {},
): Promise<{ services: Services; close(): Promise<void> }> {
  const db = openDb(dbSettings(settings), {
    onError: (error) => log.warn({ err: error }, "a database connection was lost"),
    ...hooks,
  });
  try {
    const configured = settings.APP_SECRETS ?? [];
    await assertSupportedServer(db.pool);
    await registerSecrets(db, configured);
    const keyring = await loadKeyring(configured, db);
    const holderLimit = new HolderLimit(
      settings.DATABASE_CONNECTIONS_PER_HOLDER,
      settings.DATABASE_CONNECT_TIMEOUT_MS,
    );
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
