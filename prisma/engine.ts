import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { PrismaPg } from "@prisma/adapter-pg";
import {
  bindMigrationAwareSqlAdapterFactory,
  ColumnTypeEnum,
  isDriverAdapterError,
  type SqlDriverAdapter,
  type SqlMigrationAwareDriverAdapterFactory,
} from "@prisma/driver-adapter-utils";
import type { SchemaEngine } from "@prisma/schema-engine-wasm/schema_engine_bg";
import type pg from "pg";
import { loadEngine } from "./load-engine.js";
import { migrationNames, readScript, schemaFile } from "./migration-files.js";
import { type RunOptions, retryLockTimeouts, runConcurrently } from "./run-script.js";
import { parseScript } from "./script.js";
import { openSession } from "./session.js";

/** No tables or enums are excluded. */
export const NO_FILTERS = { externalTables: [], externalEnums: [] };

const { Character, CharacterArray } = ColumnTypeEnum;

/** Runs `work` with Prisma's schema engine, the WebAssembly build that needs no download. */
export async function withEngine<Result>(
  session: pg.Pool,
  options: RunOptions,
  work: (engine: SchemaEngine) => Promise<Result>,
): Promise<Result> {
  const { SchemaEngine } = await loadEngine();
  const schema = await readFile(schemaFile(), "utf8");
  const scripts = await Promise.all((await migrationNames()).map((name) => readScript(name)));
  const adapters = new Adapters(session, new Set(scripts), options);
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
  private readonly migrations: Set<string>;
  private readonly options: RunOptions;

  constructor(session: pg.Pool, migrations: Set<string>, options: RunOptions) {
    this.session = session;
    this.migrations = migrations;
    this.options = options;
  }

  connect(): Promise<SqlDriverAdapter> {
    return this.over(this.session, (script, run) =>
      this.migrations.has(script) ? this.runMigration(script, run) : run(script),
    );
  }

  private async runMigration(text: string, run: RunSql): Promise<void> {
    const script = parseScript(text);
    if (script.kind === "concurrent") {
      return runConcurrently(this.session, script, () => run(text), this.options.onProgress);
    }
    // Postgres runs several statements that are sent together as one transaction.
    const transaction = `${text}\n;\n${MARK_FINISHED}`;
    return retryLockTimeouts(this.session, isLockTimeout, () => run(transaction), this.options);
  }

  async connectToShadowDb(): Promise<SqlDriverAdapter> {
    const name = `guest_forms_shadow_${randomUUID().replaceAll("-", "")}`;
    await this.session.query(`CREATE DATABASE "${name}"`);
    const url = new URL(this.session.options.connectionString ?? "");
    url.pathname = name;
    const session = openSession(url.href);
    this.shadows.push({ name, session });
    return this.over(session, (script, run) => run(script));
  }

  async dropShadows(): Promise<void> {
    for (const { name, session } of this.shadows.splice(0)) {
      await session.end();
      await this.session.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    }
  }

  // The adapter's own executeScript splits at every semicolon, even in strings and functions.
  private async over(
    session: pg.Pool,
    execute: (script: string, run: RunSql) => Promise<void>,
  ): Promise<SqlDriverAdapter> {
    const adapter = await new PrismaPg(session).connect();
    const queryRaw = adapter.queryRaw.bind(adapter);
    adapter.queryRaw = async (query) => {
      const result = await queryRaw(query);
      const columnTypes = result.columnTypes.map((type) => (type === CharacterArray ? Character : type));
      return { ...result, columnTypes };
    };
    adapter.executeScript = (script) =>
      execute(script, async (sql) => {
        await adapter.executeRaw({ sql, args: [], argTypes: [] });
      });
    return adapter;
  }
}

type RunSql = (sql: string) => Promise<void>;

const LOCK_NOT_AVAILABLE = "55P03";

const isLockTimeout = (error: unknown) =>
  isDriverAdapterError(error) && error.cause.originalCode === LOCK_NOT_AVAILABLE;
