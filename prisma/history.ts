import { migrationNames } from "./migration-files.js";

export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/**
 * Returns the migrations of this version that the database has not finished. Migrations of a newer version are ignored:
 * the old version keeps serving during a rolling upgrade.
 */
export async function pendingMigrations(database: Queryable): Promise<string[]> {
  const finished = await recordedNames(database, "finished_at IS NOT NULL AND rolled_back_at IS NULL");
  return (await migrationNames()).filter((name) => !finished.includes(name));
}

/** Returns the migrations in the database that this version does not have, oldest first. */
export async function unknownMigrations(database: Queryable): Promise<string[]> {
  const known = await migrationNames();
  return (await recordedNames(database, "rolled_back_at IS NULL")).filter((name) => !known.includes(name));
}

async function recordedNames(database: Queryable, where: string): Promise<string[]> {
  if (!(await hasMigrationsTable(database))) return [];
  const sql = `SELECT DISTINCT migration_name AS name FROM _prisma_migrations WHERE ${where} ORDER BY name`;
  return (await database.query(sql)).rows.map((row) => (row as { name: string }).name);
}

export const hasMigrationsTable = async (database: Queryable): Promise<boolean> =>
  (await database.query("SELECT FROM pg_class WHERE oid = to_regclass('_prisma_migrations')")).rows.length > 0;

/** The database has migrations that this version does not have, and lacks some of its own. */
export class UnknownMigrations extends Error {
  constructor(name: string) {
    super(`another version of guest-forms has migrated it (this one has no migration ${name})`);
  }
}

/** Returns the pending migrations. Throws UnknownMigrations if another version has migrated the database. */
export async function checkHistory(database: Queryable): Promise<string[]> {
  const pending = await pendingMigrations(database);
  const unknown = pending.length > 0 ? (await unknownMigrations(database)).at(-1) : undefined;
  if (unknown) throw new UnknownMigrations(unknown);
  return pending;
}
