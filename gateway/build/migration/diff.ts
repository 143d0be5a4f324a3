import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { PrismaPg } from "@prisma/adapter-pg";
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } from "@prisma/driver-adapter-utils";
import pg from "pg";
import { connectionOf } from "../../../prisma/connection.js";
import { migrate } from "../../../prisma/migrate.js";
import { schemaFile } from "../../../prisma/migration-files.js";
import { openSession } from "../../../prisma/session.js";

/**
 * Returns the SQL that brings the migrations up to schema.prisma, or to the given `schema`; empty if they are equal. Applies
 * the migrations to a temporary database on the server at `url`, so the role needs CREATEDB.
 */
export async function diffSchema(url: string, schema?: string): Promise<string> {
  const name = `guest_forms_migration_${randomUUID().replaceAll("-", "")}`;
  const database = new URL(url);
  database.pathname = name;
  const server = new pg.Client(connectionOf(url));
  await server.connect();
  try {
    await server.query(`CREATE DATABASE "${name}"`);
    await migrate(database.href);
    return await diffDatabase(database.href, schema);
  } finally {
    await server.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    await server.end();
  }
}

async function diffDatabase(url: string, schema?: string): Promise<string> {
  const content = normalizeDefaults(schema ?? (await readFile(schemaFile(), "utf8")));
  const files = [{ path: schemaFile(), content }];
  const { SchemaEngine } = await loadEngine();
  const pool = openSession(url);
  const engine = await SchemaEngine.new(
    { datamodels: [[schemaFile(), content]] },
    () => {},
    bindMigrationAwareSqlAdapterFactory(adaptersOf(pool)),
  );
  try {
    const { stdout } = await engine.diff({
      from: { tag: "schemaDatasource", files, configDir: "" },
      to: { tag: "schemaDatamodel", files },
      script: true,
      exitCode: null,
      filters: { externalTables: [], externalEnums: [] },
    });
    const sql = stdout?.trim() ?? "";
    return sql === "-- This is an empty migration." ? "" : `${sql}\n`;
  } finally {
    engine.free();
    await pool.end();
  }
}

/**
 * Prisma's adapter over this pool. The adapter does not know Postgres's type "char": results are labeled as its array type
 * for the adapter, and back for the engine.
 */
function adaptersOf(pool: pg.Pool): PrismaPg {
  const query = pool.query.bind(pool);
  const adapters = new PrismaPg(
    Object.assign(pool, {
      query: async (config: pg.QueryArrayConfig) => {
        const result = await query(config);
        for (const field of result.fields) if (field.dataTypeID === CHAR) field.dataTypeID = CHAR_ARRAY;
        return result;
      },
    }),
  );
  const connect = adapters.connect.bind(adapters);
  adapters.connect = async () => {
    const adapter = await connect();
    const queryRaw = adapter.queryRaw.bind(adapter);
    adapter.queryRaw = async (sql) => {
      const result = await queryRaw(sql);
      const columnTypes = result.columnTypes.map((type) => (type === CharacterArray ? Character : type));
      return { ...result, columnTypes };
    };
    return adapter;
  };
  return adapters;
}

const CHAR = 18;
const CHAR_ARRAY = 1002;
const { Character, CharacterArray } = ColumnTypeEnum;

// Both produce the same column default, but with now() Prisma's client sends the time. The engine reads either back as
// now() and would always report a difference.
const normalizeDefaults = (schema: string) => schema.replaceAll('dbgenerated("now()")', "now()");

type Engine = typeof import("@prisma/schema-engine-wasm/schema_engine_bg");

let engine: Promise<Engine> | undefined;

/**
 * Loads Prisma's schema engine (WebAssembly) once: a second instance would break the first. Unlike the binary of Prisma's
 * CLI, it needs no download.
 */
function loadEngine(): Promise<Engine> {
  engine ??= load();
  return engine;
}

// TypeScript declares WebAssembly only in its DOM library.
declare const WebAssembly: {
  instantiate(code: Uint8Array, imports: object): Promise<{ instance: { exports: Record<string, unknown> } }>;
};

// The package's entry imports the .wasm file as a module, which Node 20 does not support.
async function load(): Promise<Engine> {
  const glue = await import("@prisma/schema-engine-wasm/schema_engine_bg");
  const entry = createRequire(import.meta.url).resolve("@prisma/schema-engine-wasm/schema_engine_bg");
  const code = await readFile(join(dirname(entry), "schema_engine_bg.wasm"));
  const { instance } = await WebAssembly.instantiate(code, { "./schema_engine_bg.js": glue });
  glue.__wbg_set_wasm(instance.exports);
  const start = instance.exports.__wbindgen_start;
  if (typeof start === "function") start();
  return glue;
}

// The engine calls this global when it panics.
Object.assign(globalThis, {
  PRISMA_WASM_PANIC_REGISTRY: {
    set_message(message: string) {
      throw new Error(`Prisma's schema engine failed: ${message}`);
    },
  },
});
