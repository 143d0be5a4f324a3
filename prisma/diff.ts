import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { NO_FILTERS, withEngine } from "./engine.js";
import { measureLocks } from "./measure-locks.js";
import { migrate } from "./migrate.js";
import { migrationList, migrationNames, migrationsFolder, schemaFile } from "./migration-files.js";
import { findViolations } from "./migration-rules.js";
import { formatLocks, parseScript } from "./script.js";
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

export interface NewMigration {
  folder: string;
  /** What to change before it is committed; see `findViolations`. */
  violations: string[];
}

/**
 * Writes the missing migrations to prisma/migrations: one for the schema, and one for each new index on an existing table.
 * The comments of the SQL state the locks, which are measured on a temporary database.
 */
export async function writeMigrations(url: string, name: string): Promise<NewMigration[]> {
  if (!/^[a-z][a-z0-9_]*$/.test(name))
    throw new Error("Invalid migration name. Use lower-case letters, digits and _, starting with a letter.");
  const scripts = splitIndexes(await diffSchema(url));
  return withTemporaryDatabase(url, async (client, other) => {
    const written: NewMigration[] = [];
    for (const script of scripts) {
      const statements = await measureLocks(client, other, script);
      const lines = statements.flatMap(({ sql, locks }) => [formatLocks(locks), `${sql};`]);
      const text = `${lines.filter((line) => line !== "").join("\n")}\n`;
      const index = /CONCURRENTLY "(\w+)"/.exec(script)?.[1];
      const timestamp = nextTimestamp(new Date(), (await migrationNames()).at(-1));
      const folder = join(migrationsFolder(), `${timestamp}_${index ?? name}`);
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, "migration.sql"), text);
      written.push({ folder, violations: findViolations(text, statements) });
    }
    return written;
  });
}

/** Moves each new index on an existing table into a script of its own, which builds it CONCURRENTLY. */
export function splitIndexes(sql: string): string[] {
  const statements = parseScript(sql).statements.map((statement) => statement.sql);
  const isNew = (table: string) => statements.some((each) => each.startsWith(`CREATE TABLE "${table}"`));
  const isIndexOnOldTable = (each: string) => {
    const [, table] = /^CREATE (?:UNIQUE )?INDEX "\w+" ON "(\w+)"/.exec(each) ?? [];
    return table !== undefined && !isNew(table);
  };
  const others = statements.filter((each) => !isIndexOnOldTable(each));
  const indexes = statements
    .filter(isIndexOnOldTable)
    .map((each) => `${each.replace(" INDEX ", " INDEX CONCURRENTLY ")};\n`);
  return [...(others.length > 0 ? [`${others.join(";\n")};\n`] : []), ...indexes];
}

/** Runs `work` with two connections to a new database that has all migrations, and drops it. */
async function withTemporaryDatabase<Result>(
  url: string,
  work: (client: pg.Client, other: pg.Client) => Promise<Result>,
): Promise<Result> {
  const name = `guest_forms_migration_${randomUUID().replaceAll("-", "")}`;
  const database = new URL(url);
  database.pathname = name;
  const [server, client, other] = [url, database.href, database.href].map(
    (connectionString) => new pg.Client({ connectionString }),
  ) as [pg.Client, pg.Client, pg.Client];
  await server.connect();
  try {
    await server.query(`CREATE DATABASE "${name}"`);
    await migrate(database.href);
    await Promise.all([client.connect(), other.connect()]);
    return await work(client, other);
  } finally {
    await Promise.all([client.end(), other.end()]);
    await server.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    await server.end();
  }
}

/** The time in 14 digits, or the number after the newest migration's if that is later: migrations run in order of name. */
export function nextTimestamp(now: Date, newestMigration = "0"): string {
  const time = Number(now.toISOString().replace(/\D/g, "").slice(0, 14));
  return String(Math.max(time, Number.parseInt(newestMigration, 10) + 1));
}
