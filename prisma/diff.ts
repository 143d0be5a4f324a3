import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { NO_FILTERS, withEngine } from "./engine.js";
import { migrationList, migrationNames, migrationsFolder, schemaFile } from "./migration-files.js";
import { openSession } from "./session.js";

/**
 * Returns the SQL that brings the migrations up to schema.prisma, or to the given `schema`; empty if they are equal. Applies
 * the migrations to a temporary database on the server at `url`, so the role needs CREATEDB.
 */
export async function diffSchema(url: string, schema?: string): Promise<string> {
  const wanted = normalizeDefaults(schema ?? (await readFile(schemaFile(), "utf8")));
  const session = openSession(url);
  try {
    const migrations = await migrationList();
    const { stdout } = await withEngine(session, { lockWaitMs: 0, onProgress: () => {} }, (engine) =>
      engine.diff({
        from: { tag: "migrations", ...migrations },
        to: { tag: "schemaDatamodel", files: [{ path: schemaFile(), content: wanted }] },
        script: true,
        exitCode: null,
        filters: NO_FILTERS,
      }),
    );
    const sql = stdout?.trim() ?? "";
    return sql === "-- This is an empty migration." ? "" : `${sql}\n`;
  } finally {
    await session.end();
  }
}

// Both produce the same column default, but with now() Prisma's client sends the time. The engine reads either back as
// now() and would always report a difference.
const normalizeDefaults = (schema: string) => schema.replaceAll('dbgenerated("now()")', "now()");

/** Writes the missing migration to prisma/migrations and returns its folder, or null if none is missing. */
export async function writeMigration(url: string, name: string): Promise<string | null> {
  if (!/^[a-z][a-z0-9_]*$/.test(name))
    throw new Error("Invalid migration name. Use lower-case letters, digits and _, starting with a letter.");
  const sql = await diffSchema(url);
  if (!sql) return null;
  const timestamp = nextTimestamp(new Date(), (await migrationNames()).at(-1));
  const folder = join(migrationsFolder(), `${timestamp}_${name}`);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "migration.sql"), sql);
  return folder;
}

/** The time in 14 digits, or the number after the newest migration's if that is later: migrations run in order of name. */
export function nextTimestamp(now: Date, newestMigration = "0"): string {
  const time = Number(now.toISOString().replace(/\D/g, "").slice(0, 14));
  return String(Math.max(time, Number.parseInt(newestMigration, 10) + 1));
}
