import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { packageRoot } from "./package-root.js";

export const migrationsFolder = () => join(packageRoot(), "prisma", "migrations");
export const schemaFile = () => join(packageRoot(), "prisma", "schema.prisma");

/** Names of the migrations in the folder, oldest first. */
export async function migrationNames(): Promise<string[]> {
  const entries = await readdir(migrationsFolder(), { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** The SQL of a migration. */
export const readScript = (name: string): Promise<string> =>
  readFile(join(migrationsFolder(), name, "migration.sql"), "utf8");
