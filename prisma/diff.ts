import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  migrationList,
  migrationsFolder,
  NO_FILTERS,
  openSession,
  schemaFile,
  withEngine,
} from "./engine.js";

/**
 * The SQL that would bring the migrations to schema.prisma, or to the `schema` given; empty if they are equal. Tries the
 * migrations out in a temporary database on the server at `url`, whose role must be allowed to create one.
 */
export async function diffSchema(url: string, schema?: string): Promise<string> {
  const wanted = normalizeDefaults(schema ?? (await readFile(schemaFile(), "utf8")));
  const session = openSession(url);
  try {
    const migrations = await migrationList();
    const { stdout } = await withEngine(session, (engine) =>
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

// The two make one and the same column default; they differ in who is asked for the instant of a new row. The engine
// reads both back from a database as the second and would find a difference for ever.
const normalizeDefaults = (schema: string) => schema.replaceAll('dbgenerated("now()")', "now()");

/** Writes the missing migration under prisma/migrations and gives its folder, or null where none is missing. */
export async function writeMigration(url: string, name: string): Promise<string | null> {
  if (!/^[a-z][a-z0-9_]*$/.test(name))
    throw new Error("A migration's name is lower-case letters, digits and _.");
  const sql = await diffSchema(url);
  if (!sql) return null;
  const moment = new Date().toISOString().replace(/\D/g, "").slice(0, 14);
  const folder = join(migrationsFolder(), `${moment}_${name}`);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "migration.sql"), sql);
  return folder;
}
