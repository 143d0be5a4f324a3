import { createTestDatabase } from "../support/database.js";
import { makeLaterVersion } from "../support/later-version.js";
import { holdLock } from "../support/locks.js";
import { runSql } from "../support/run-sql.js";

export const PENDING = "20990101000000_pending";
export const SQL = `-- Locks: emails ACCESS EXCLUSIVE
ALTER TABLE "emails" ADD COLUMN "later" INTEGER NOT NULL DEFAULT 0;
`;
export const { migrate, planMigrations } = (await makeLaterVersion({ [PENDING]: SQL })).migrator;

/** A database, and a transaction that reads `emails`. */
export async function blockPendingMigration() {
  const { url } = await createTestDatabase();
  return { url, blocker: await holdLock({ db: { url } }, "LOCK TABLE emails IN ACCESS SHARE MODE") };
}

/** Migrates while others read the table. The transaction that blocks the migration ends after 100 reads. */
export async function migrateWhileBlocked() {
  const { url, blocker } = await blockPendingMigration();
  const lines: string[] = [];
  let hasEnded = false;
  let isBlocked = true;
  const migrated = migrate(url, { onProgress: (line) => lines.push(line) }).finally(() => {
    hasEnded = true;
  });
  const readsMs: number[] = [];
  while (!hasEnded) {
    const began = performance.now();
    await runSql(url, "SELECT count(*) FROM emails");
    readsMs.push(performance.now() - began);
    if (isBlocked && lines.length > 0 && readsMs.length >= 100) {
      isBlocked = false;
      await blocker.commit();
    }
  }
  return { result: await migrated, lines, readsMs };
}
