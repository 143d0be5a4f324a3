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

export const migrationsFolder = () => join(packageRoot(), "prisma", "migrations");
export const schemaFile = () => join(packageRoot(), "prisma", "schema.prisma");

/** Set in every session to detect a pooler, which drops it. Session locks do not work through a pooler. */
export const SESSION_MARKER = "guest_forms.session";
// The role's timeouts must not interrupt a migration.
const SETTINGS = {
  timezone: "UTC",
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  [SESSION_MARKER]: "own",
};

const CONNECT_TIMEOUT_MS = 10_000;

/** Names of the migrations in the folder, oldest first. */
export async function migrationNames(folder = migrationsFolder()): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** The migrations as Prisma's engine expects them. */
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

/** No tables or enums are excluded. */
export const NO_FILTERS = { externalTables: [], externalEnums: [] };

/**
 * A pool of exactly one connection, so its session holds a lock until all work is done. This includes a statement that still
 * runs after the client was killed: the server finishes it before it releases the lock. A lost connection is not reopened.
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
  // The next query rejects. Without listeners, losing the connection would crash the process.
  session.on("error", () => {});
  session.on("connect", (client) => client.on("error", () => {}));
  // pg's `Pool.query` closes the connection after any error, such as a missing table.
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

/** Postgres's internal type "char" is unknown to Prisma's adapter; its array type is supported. */
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

/**
 * Whether a migration applies completely or not at all. Postgres runs a script that is sent whole as one transaction,
 * unless it ends transactions itself or contains a statement that cannot run in one.
 */
export const isAtomic = (script: string) =>
  !/\b(commit|end|concurrently|rollback|vacuum)\b/i.test(script.replace(LITERALS_AND_COMMENTS, " "));
// Function bodies, strings, quoted names and comments. Matched together because each can contain the delimiters of another.
const LITERALS_AND_COMMENTS =
  /\$(\w*)\$[\s\S]*?\$\1\$|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--.*|\/\*[\s\S]*?\*\//gi;

/** Names of the migrations that apply completely or not at all. */
export async function atomicMigrations(): Promise<string[]> {
  const { migrationDirectories } = await migrationList();
  return migrationDirectories.filter((migration) => isAtomic(scriptOf(migration))).map(({ path }) => path);
}

// Runs in the script's transaction, so that a migration whose client was killed is either marked as finished or not
// applied. At most one row is unfinished: the engine starts no migration before the previous one is resolved.
const MARK_FINISHED =
  "UPDATE _prisma_migrations SET finished_at = clock_timestamp() WHERE finished_at IS NULL AND rolled_back_at IS NULL";

/** Prisma's adapter over connections that this module closes. */
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

  // The adapter's own executeScript splits at every semicolon, even in strings and functions.
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

/** Returns the script of a migration. Throws if the file could not be read. */
function scriptOf({
  path,
  migrationFile: { content },
}: MigrationList["migrationDirectories"][number]): string {
  if (content.tag === "error") throw new Error(`migration ${path} cannot be read: ${content.value}`);
  return content.value;
}
