import { randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { PrismaPg } from "@prisma/adapter-pg";
import {
  bindMigrationAwareSqlAdapterFactory,
  ColumnTypeEnum,
  type SqlDriverAdapter,
  type SqlMigrationAwareDriverAdapterFactory,
} from "@prisma/driver-adapter-utils";
import type { MigrationList, SchemaEngine } from "@prisma/schema-engine-wasm/schema_engine_bg";
import pg from "pg";
import { loadEngine } from "./load-engine.js";
import { packageRoot } from "./package-root.js";
import { withOptions } from "./session-options.js";

export { packageRoot };

export const migrationsFolder = () => join(packageRoot(), "prisma", "migrations");
export const schemaFile = () => join(packageRoot(), "prisma", "schema.prisma");

/** Set in every session, so that a pooler which drops such settings shows: a lock would not last behind it. */
export const SESSION_MARKER = "guest_forms.session";
// A role's time limits must not cut a migration short.
const SETTINGS = {
  timezone: "UTC",
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  [SESSION_MARKER]: "own",
};

/** Milliseconds to wait for a connection. */
const CONNECT_TIMEOUT_MS = 10_000;

/** The names of the migrations in the folder, oldest first. */
export async function migrationNames(folder = migrationsFolder()): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** The migrations in the shape in which Prisma's engine takes them. */
export async function migrationList(folder = migrationsFolder()): Promise<MigrationList> {
  const names = await migrationNames(folder);
  const script = async (name: string) => ({
    path: name,
    migrationFile: {
      path: "migration.sql",
      content: { tag: "ok" as const, value: await readFile(join(folder, name, "migration.sql"), "utf8") },
    },
  });
  const lockfile = join(folder, "migration_lock.toml");
  return {
    baseDir: folder,
    lockfile: { path: "migration_lock.toml", content: await readFile(lockfile, "utf8").catch(() => null) },
    shadowDbInitScript: "",
    migrationDirectories: await Promise.all(names.map(script)),
  };
}

/** Nothing is managed outside Prisma's schema. */
export const NO_FILTERS = { externalTables: [], externalEnums: [] };

/**
 * The one connection that does all the work on a database. What it holds, such as a lock, lives exactly as long as
 * what it runs: a server finishes the statement of a killed client. Once lost it is not made anew.
 */
export function openSession(connectionString: string): pg.Pool {
  let opened = false;
  const session = new pg.Pool({
    ...withOptions(connectionString, SETTINGS),
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: "guest-forms migrate",
    verify(_client, done) {
      done(opened ? new Error("the connection was lost") : undefined);
      opened = true;
    },
  });
  // Whoever uses the lost connection next is told; without listeners its loss would end the process.
  session.on("error", () => {});
  session.on("connect", (client) => client.on("error", () => {}));
  // A pool's own `query` closes the connection after any error, be it a missing table.
  const query = async (...args: [pg.QueryArrayConfig]) => {
    const client = await session.connect();
    try {
      return mapCharTypes(await client.query(...args));
    } finally {
      client.release();
    }
  };
  return Object.assign(session, { query });
}

/** The type "char" of Postgres' catalogues, which Prisma's adapter does not know, and its array, which it does. */
const CHAR = 18;
const CHAR_ARRAY = 1002;

function mapCharTypes<Result extends pg.QueryArrayResult>(result: Result): Result {
  for (const field of result.fields ?? []) {
    if (field.dataTypeID === CHAR) field.dataTypeID = CHAR_ARRAY;
  }
  return result;
}

const { Character, CharacterArray } = ColumnTypeEnum;

/** Runs `work` with Prisma's schema engine, the WebAssembly build that needs no download. */
export async function withEngine<Result>(
  session: pg.Pool,
  work: (engine: SchemaEngine) => Promise<Result>,
): Promise<Result> {
  const { SchemaEngine } = await loadEngine();
  const schema = await readFile(schemaFile(), "utf8");
  const adapters = new Adapters(session, await migrationList());
  const engine = await SchemaEngine.new(
    { datamodels: [["schema.prisma", schema]] },
    () => {},
    bindMigrationAwareSqlAdapterFactory(adapters),
  );
  try {
    return await work(engine);
  } finally {
    engine.free();
    await adapters.dropShadows();
  }
}

/*
 * Whether a migration happens entirely or not at all: its script is sent whole, which Postgres runs as one
 * transaction, unless it ends transactions itself or does what cannot be in one.
 */
export const isAtomic = (script: string) =>
  !/\b(commit|end|concurrently|rollback|vacuum)\b/i.test(script.replace(LITERALS_AND_COMMENTS, " "));
// Function bodies, strings, quoted names and comments. Matched together, because each may contain the marks of another.
const LITERALS_AND_COMMENTS =
  /\$(\w*)\$[\s\S]*?\$\1\$|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--.*|\/\*[\s\S]*?\*\//gi;

/** The names of the migrations of which either everything is there or nothing. */
export async function atomicMigrations(): Promise<string[]> {
  const { migrationDirectories } = await migrationList();
  return migrationDirectories.filter((migration) => isAtomic(scriptOf(migration))).map(({ path }) => path);
}

// In the transaction of the script, so that a migration whose client was killed is either finished or not there. The
// engine's own update then finds it done. Only one is ever unfinished: the engine begins none before it is resolved.
const MARK_FINISHED =
  "UPDATE _prisma_migrations SET finished_at = clock_timestamp() WHERE finished_at IS NULL AND rolled_back_at IS NULL";

/** Prisma's adapter, over connections that are ours to close. */
class Adapters implements SqlMigrationAwareDriverAdapterFactory {
  readonly provider = "postgres";
  readonly adapterName = "@prisma/adapter-pg";
  private readonly shadows: { name: string; session: pg.Pool }[] = [];
  private readonly session: pg.Pool;
  private readonly atomic: Set<string>;

  constructor(session: pg.Pool, { migrationDirectories }: MigrationList) {
    this.session = session;
    this.atomic = new Set(migrationDirectories.map(scriptOf).filter(isAtomic));
  }

  connect(): Promise<SqlDriverAdapter> {
    return this.over(this.session, (script) =>
      this.atomic.has(script) ? `${script}\n;\n${MARK_FINISHED}` : script,
    );
  }

  async connectToShadowDb(): Promise<SqlDriverAdapter> {
    const name = `guest_forms_shadow_${randomUUID().replaceAll("-", "")}`;
    await this.session.query(`CREATE DATABASE "${name}"`);
    const url = new URL(this.session.options.connectionString ?? "");
    url.pathname = name;
    const session = openSession(url.href);
    this.shadows.push({ name, session });
    return this.over(session, (script) => script);
  }

  async dropShadows(): Promise<void> {
    for (const { name, session } of this.shadows.splice(0)) {
      await session.end();
      await this.session.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    }
  }

  // The adapter would cut a script at every semicolon, those in strings and functions too, and run the parts one by
  // one.
  private async over(session: pg.Pool, prepare: (script: string) => string): Promise<SqlDriverAdapter> {
    const adapter = await new PrismaPg(session).connect();
    const queryRaw = adapter.queryRaw.bind(adapter);
    adapter.queryRaw = async (query) => {
      const result = await queryRaw(query);
      const columnTypes = result.columnTypes.map((type) => (type === CharacterArray ? Character : type));
      return { ...result, columnTypes };
    };
    adapter.executeScript = async (script) => {
      await adapter.executeRaw({ sql: prepare(script), args: [], argTypes: [] });
    };
    return adapter;
  }
}

/** The script of a migration; throws where the file could not be read. */
function scriptOf({
  path,
  migrationFile: { content },
}: MigrationList["migrationDirectories"][number]): string {
  if (content.tag === "error") throw new Error(`migration ${path} cannot be read: ${content.value}`);
  return content.value;
}
