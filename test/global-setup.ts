import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { removeEmbedded, startEmbedded } from "../gateway/dev/embedded.js";
import { migrate } from "../prisma/migrate.js";

declare module "vitest" {
  interface ProvidedContext {
    /** postgres:// address of a role that may create databases. */
    serverUrl: string;
    /** A migrated database that `createTestDatabase` copies; its name begins those of all that the run makes. */
    template: string;
  }
}

/** Gives the tests a PostgreSQL, the one at DATABASE_URL or an embedded one, and takes away all that they made. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = process.env.DATABASE_URL ? given(process.env.DATABASE_URL) : await embedded();
  const template = `${PREFIX}${seconds()}_${randomBytes(4).toString("hex")}`;
  const teardown = async () => {
    await dropDatabases(server.url, (name) => name.startsWith(template)).finally(() => server.stop());
  };
  try {
    await dropDatabases(server.url, isLeftover);
    await query(server.url, `CREATE DATABASE "${template}"`);
    const url = new URL(server.url);
    url.pathname = template;
    await migrate(url.href, { storeSecret: true });
    // A database is copied only while nobody is connected to it.
    await query(server.url, `ALTER DATABASE "${template}" WITH ALLOW_CONNECTIONS false`);
  } catch (error) {
    await teardown();
    throw error;
  }
  project.provide("serverUrl", server.url);
  project.provide("template", template);
  return teardown;
}

const PREFIX = "guest_forms_test_";
const DAY_SECONDS = 86_400;
const seconds = () => Math.floor(Date.now() / 1000);

/** Whether a database is of a run that must have been killed. */
function isLeftover(name: string): boolean {
  const made = new RegExp(`^${PREFIX}(\\d+)_`).exec(name)?.[1];
  return made !== undefined && Number(made) < seconds() - DAY_SECONDS;
}

const given = (url: string) => ({ url, stop: async () => {} });

const FOLDER_PREFIX = "guest-forms-test-";
const FOLDER_IDLE_MS = 600_000;

async function embedded() {
  await removeLeftovers();
  const dataDir = await mkdtemp(join(tmpdir(), FOLDER_PREFIX));
  const remove = () => removeEmbedded(dataDir);
  try {
    const server = await startEmbedded({ dataDir, durable: false, settings: { max_connections: "300" } });
    return { url: server.url, stop: () => server.stop().finally(remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const folder = join(tmpdir(), name);
    if (!name.startsWith(FOLDER_PREFIX)) continue;
    const { mtimeMs } = await stat(folder);
    if (mtimeMs > Date.now() - FOLDER_IDLE_MS) continue;
    // Refused if it is in use.
    await removeEmbedded(folder).catch(() => {});
  }
}

async function dropDatabases(url: string, chosen: (name: string) => boolean): Promise<void> {
  const names = await query<{ datname: string }>(url, "SELECT datname FROM pg_database");
  for (const { datname } of names.filter((row) => chosen(row.datname))) {
    await query(url, `DROP DATABASE IF EXISTS "${datname}" WITH (FORCE)`);
  }
}

async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}
