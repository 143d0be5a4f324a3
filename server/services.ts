import { checkHistory } from "../prisma/history.js";
import { assertSupportedServer } from "../prisma/session.js";
import type { Log, Services } from "./access/context.js";
import type { Settings } from "./config.js";
import { type DbHooks, openDb } from "./database/db.js";
import { HolderLimit } from "./database/holder-limit.js";
import { InFlightCreates } from "./database/in-flight-creates.js";
import type { ReadHooks } from "./database/reads.js";
import { openReads } from "./database/standby.js";
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
  hooks: Pick<DbHooks, "observe" | "onFailure"> & { onRead?: ReadHooks["onRead"] | undefined } = {},
): Promise<{ services: Services; close(): Promise<void> }> {
  const { APP_SECRETS = [] } = settings;
  const keyring = deriveKeyring(APP_SECRETS);
  // Not the error: pg attaches the client, with all its statements.
  const onError = ({ message, code }: NodeJS.ErrnoException) =>
    log.warn({ reason: message, code }, "a database connection was lost");
  const db = openDb(settings, { ...hooks, onError });
  try {
    await assertSupportedServer(db.pool);
    await checkHistory(db.pool);
    await registerSecrets(db, APP_SECRETS);
    const holderLimit = new HolderLimit(settings.DATABASE_CONNECTIONS_PER_HOLDER, settings.DATABASE_CONNECT_TIMEOUT_MS);
    const inFlightCreates = new InFlightCreates(db);
    const { reads, close } = openReads(settings, db, {
      onError,
      observe: hooks.observe,
      onRead: hooks.onRead ?? (() => {}),
      onUse(isUsed, err) {
        if (isUsed) log.warn({}, "reads use the standby again");
        else log.warn({ err }, "reads use the primary: the standby is behind, or cannot be used");
      },
    });
    return {
      services: { db, reads, keyring, settings, holderLimit, inFlightCreates },
      async close() {
        // First: a connection to the standby that is being opened asks the primary.
        await close();
        await db.close();
      },
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}
