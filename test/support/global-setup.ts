import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { removeEmbedded, startEmbedded } from "../../gateway/dev/embedded.js";
import { migrate } from "../../prisma/migrate.js";
import { installFormWriteGuard } from "./form-write-guard.js";
import { installOutboxMoveGuard } from "./outbox-move-guard.js";
import { runSql } from "./run-sql.js";

declare module "vitest" {
  interface ProvidedContext {
    /** postgres:// URL of a role that may create databases. */
    serverUrl: string;
    /** A migrated database that `createTestDatabase` clones. Its name is the prefix of all databases of the run. */
    template: string;
  }
}

/** Provides a Postgres server, from DATABASE_URL or embedded, and drops all test databases afterwards. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = process.env.DATABASE_URL ? externalServer(process.env.DATABASE_URL) : await startEmbeddedServer();
  const template = `${PREFIX}${nowSeconds()}_${randomBytes(4).toString("hex")}`;
  const teardown = async () => {
    await dropDatabases(server.url, (name) => name.startsWith(template)).finally(() => server.stop());
  };
  try {
    await dropDatabases(server.url, isLeftover);
    await runSql(server.url, `CREATE DATABASE "${template}"`);
    const url = new URL(server.url);
    url.pathname = template;
    await migrate(url.href);
    await installFormWriteGuard(url.href);
    await installOutboxMoveGuard(url.href);
    // Postgres clones a database only while nothing is connected to it.
    await runSql(server.url, `ALTER DATABASE "${template}" WITH ALLOW_CONNECTIONS false`);
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
const nowSeconds = () => Math.floor(Date.now() / 1000);

/** Whether a database was left behind by a killed run. */
function isLeftover(name: string): boolean {
  const createdSeconds = new RegExp(`^${PREFIX}(\\d+)_`).exec(name)?.[1];
  return createdSeconds !== undefined && Number(createdSeconds) < nowSeconds() - DAY_SECONDS;
}

const externalServer = (url: string) => ({ url, stop: async () => {} });

const DATA_FOLDER_PREFIX = "guest-forms-test-";
const FOLDER_IDLE_MS = 600_000;

async function startEmbeddedServer() {
  await removeLeftoverFolders();
  const dataDir = await mkdtemp(join(tmpdir(), DATA_FOLDER_PREFIX));
  const remove = () => removeEmbedded(dataDir);
  try {
    const server = await startEmbedded({ dataDir, durable: false, settings: { max_connections: "300" } });
    return { url: server.url, stop: () => server.stop().finally(remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function removeLeftoverFolders(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const folder = join(tmpdir(), name);
    if (!name.startsWith(DATA_FOLDER_PREFIX)) continue;
    // Another run may remove it at the same time.
    const stats = await stat(folder).catch(() => undefined);
    if (!stats || stats.mtimeMs > Date.now() - FOLDER_IDLE_MS) continue;
    // Fails if the folder is in use.
    await removeEmbedded(folder).catch(() => {});
  }
}

async function dropDatabases(url: string, shouldDrop: (name: string) => boolean): Promise<void> {
  const names = await runSql<{ datname: string }>(url, "SELECT datname FROM pg_database");
  for (const { datname } of names.filter((row) => shouldDrop(row.datname))) {
    await runSql(url, `DROP DATABASE IF EXISTS "${datname}" WITH (FORCE)`);
  }
}
