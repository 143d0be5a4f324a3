import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { pendingMigrations } from "../../prisma/migrate.js";
import type { Settings } from "../../server/config.js";
import { type Db, openDb } from "../../server/db.js";
import { registerSecrets, SecretsRejected } from "../../server/secret-checks.js";
import { dbSettings } from "../../server/services.js";

/** Logs and returns whether migrations are pending. Ignores database errors, which the start reports later. */
export async function warnIfPending(settings: Settings, log: Logger): Promise<boolean> {
  const pending = await withDb(settings, (db) => pendingMigrations(db.pool)).catch(() => []);
  if (pending.length > 0) log.warn({ pending }, "migrations are pending: run `guest-forms migrate`");
  return pending.length > 0;
}

/**
 * Resolves when a stop is requested. If migrations were pending at the start, it rejects with SecretsRejected if
 * the migrated database does not know APP_SECRETS.
 */
export const waitForStop = (stopRequested: Promise<void>, isPending: boolean, settings: Settings) =>
  isPending ? Promise.race([stopRequested, throwIfSecretsRejected(settings)]) : stopRequested;

const RETRY_MS = 1_000;

async function throwIfSecretsRejected(settings: Settings): Promise<never> {
  const register = () => withDb(settings, (db) => registerSecrets(db, settings.APP_SECRETS ?? []));
  while (!(await register().catch(rethrowSecretsRejected))) await sleep(RETRY_MS);
  return new Promise(() => {});
}

function rethrowSecretsRejected(error: unknown): false {
  if (error instanceof SecretsRejected) throw error;
  return false;
}

async function withDb<Result>(settings: Settings, work: (db: Db) => Promise<Result>): Promise<Result> {
  const db = openDb({ ...dbSettings(settings), poolSize: 1 });
  return work(db).finally(() => db.close());
}
