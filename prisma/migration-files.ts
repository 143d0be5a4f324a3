import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { MigrationList } from "@prisma/schema-engine-wasm/schema_engine_bg";
import { packageRoot } from "./package-root.js";

export const migrationsFolder = () => join(packageRoot(), "prisma", "migrations");
export const schemaFile = () => join(packageRoot(), "prisma", "schema.prisma");

/** Names of the migrations in the folder, oldest first. */
export async function migrationNames(folder = migrationsFolder()): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** The SQL of a migration. */
export const readScript = (name: string, folder = migrationsFolder()): Promise<string> =>
  readFile(join(folder, name, "migration.sql"), "utf8");

/** The migrations as Prisma's engine expects them. */
export async function migrationList(folder = migrationsFolder()): Promise<MigrationList> {
  const names = await migrationNames(folder);
  const lockfile = join(folder, "migration_lock.toml");
  return {
    baseDir: folder,
    lockfile: { path: "migration_lock.toml", content: await readFile(lockfile, "utf8").catch(() => null) },
    shadowDbInitScript: "",
    migrationDirectories: await Promise.all(
      names.map(async (name) => ({
        path: name,
        migrationFile: {
          path: "migration.sql",
          content: { tag: "ok" as const, value: await readScript(name, folder) },
        },
      })),
    ),
  };
}
