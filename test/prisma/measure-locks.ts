import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** A lock that a migration takes on a table that existed before it. */
export interface Lock {
  table: string;
  /** Mode of the lock, as in PostgreSQL's documentation: "ACCESS EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", … */
  mode: string;
  /** Whether the migration also reads or rewrites the whole table, which takes long on a large one. */
  work?: "reads" | "rewrites";
}

/** The comment that states these locks; empty if there are none. */
export const formatLocks = (locks: Lock[]): string =>
  locks.length === 0
    ? ""
    : `-- Locks: ${locks.map(({ table, mode, work }) => `${table} ${mode}${work ? ` and ${work} it` : ""}`).join(", ")}\n`;

interface Table {
  oid: number;
  name: string;
  /** Changes when the table is rewritten. */
  file: number;
  scans: number;
}

const TABLES = `
  SELECT c.oid::int, c.relname AS name, pg_relation_filenode(c.oid)::int AS file,
    coalesce(s.seq_scan + coalesce(s.idx_scan, 0), 0)::int AS scans
  FROM pg_class c LEFT JOIN pg_stat_xact_user_tables s ON s.relid = c.oid
  WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace`;

const LOCKS = "SELECT relation::int AS oid, mode FROM pg_locks WHERE granted AND relation IS NOT NULL AND pid = $1";

/** Weakest first. */
const MODES = [
  "ACCESS SHARE",
  "ROW SHARE",
  "ROW EXCLUSIVE",
  "SHARE UPDATE EXCLUSIVE",
  "SHARE",
  "SHARE ROW EXCLUSIVE",
  "EXCLUSIVE",
  "ACCESS EXCLUSIVE",
];

/** Whether a lock of this mode makes writes wait. */
export const blocksWrites = ({ mode }: Lock) => MODES.indexOf(mode) >= MODES.indexOf("SHARE");

/** Applies a migration to the database at `url`, whose schema has all earlier ones, and returns its locks. */
export async function measureLocks(url: string, sql: string): Promise<Lock[]> {
  const client = new pg.Client({ connectionString: url });
  const other = new pg.Client({ connectionString: url });
  await Promise.all([client.connect(), other.connect()]);
  try {
    const tables = await readTables(client);
    return /^[^;]*\bCONCURRENTLY\b/.test(sql)
      ? await measureConcurrent(client, other, tables, sql)
      : await measureInTransaction(client, tables, sql);
  } finally {
    await Promise.all([client.end(), other.end()]);
  }
}

async function measureInTransaction(client: pg.Client, before: Map<number, Table>, sql: string) {
  await client.query("BEGIN");
  await client.query(sql);
  const locks = await readLocks(client, await backendPid(client), before);
  const after = await readTables(client);
  await client.query("COMMIT");
  return locks.map(({ oid, lock }): Lock => {
    const [was, is] = [before.get(oid), after.get(oid)];
    if (!was || !is) return lock;
    if (is.file !== was.file) return { ...lock, work: "rewrites" };
    return is.scans > was.scans ? { ...lock, work: "reads" } : lock;
  });
}

/** Makes the statement wait for a transaction, and reads its locks meanwhile. */
async function measureConcurrent(
  client: pg.Client,
  other: pg.Client,
  tables: Map<number, Table>,
  sql: string,
): Promise<Lock[]> {
  const pid = await backendPid(client);
  const names = [...tables.values()].map(({ name }) => `"${name}"`);
  await other.query("BEGIN");
  await other.query(`LOCK TABLE ${names.join(", ")} IN ROW EXCLUSIVE MODE`);
  const running = client.query(sql);
  let hasFailed = false;
  running.catch(() => {
    hasFailed = true;
  });
  try {
    while (!hasFailed && !(await isWaiting(other, pid))) await sleep(10);
    const locks = await readLocks(other, pid, tables);
    return locks.map(({ lock }) => (/^CREATE/im.test(sql) ? { ...lock, work: "reads" } : lock));
  } finally {
    await other.query("COMMIT");
    await running;
  }
}

async function readTables(client: pg.Client): Promise<Map<number, Table>> {
  const { rows } = await client.query<Table>(TABLES);
  return new Map(rows.map((row) => [row.oid, row]));
}

async function backendPid(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  return rows[0]?.pid ?? 0;
}

const isWaiting = async (client: pg.Client, pid: number) =>
  (await client.query("SELECT FROM pg_locks WHERE NOT granted AND pid = $1", [pid])).rowCount !== 0;

/** The strongest lock on each of the tables, in order of their names. */
async function readLocks(client: pg.Client, pid: number, tables: Map<number, Table>) {
  const { rows } = await client.query<{ oid: number; mode: string }>(LOCKS, [pid]);
  const held = rows.map(({ oid, mode }) => ({ oid, mode: sqlName(mode) }));
  return [...tables.values()]
    .sort((one, two) => (one.name < two.name ? -1 : 1))
    .flatMap(({ oid, name: table }) => {
      const modes = held.filter((lock) => lock.oid === oid).map(({ mode }) => mode);
      const mode = MODES.findLast((each) => modes.includes(each));
      return mode ? [{ oid, lock: { table, mode } as Lock }] : [];
    });
}

/** "AccessExclusiveLock" in pg_locks is "ACCESS EXCLUSIVE" in SQL. */
const sqlName = (mode: string) =>
  mode
    .replace(/Lock$/, "")
    .replace(/(?<=[a-z])(?=[A-Z])/g, " ")
    .toUpperCase();
