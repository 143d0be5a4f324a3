import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Options } from "./options.js";
import { benchFolder, markdownTable, progress } from "./report.js";
import { startCreates } from "./requests.js";
import { findOperation, type Session, withSession } from "./session.js";

const UPDATES_PER_STATEMENT = 1_000;
/** Sessions report their WAL at most once a second. */
const WAL_REPORT_MS = 2_000;
const CREATES_MS = 10_000;
const CREATES_LATER_MS = 20_000;

type Statements = Record<"sizes" | "wal" | "update" | "vacuum" | "reindex" | "outdate", string>;

/** The statements of storage.sql by the names in their comments. */
async function readStatements(): Promise<Statements> {
  const text = await readFile(join(benchFolder(), "storage.sql"), "utf8");
  const parts = [...text.matchAll(/^-- (\w+)(?::.*)?\n([^;]+);$/gm)];
  return Object.fromEntries(parts.map(([, name, sql]) => [name, sql])) as Statements;
}

/** Measures bytes per form, WAL per create, and what updates of a tenth of the forms, VACUUM and REINDEX do to the sizes. */
export async function measureStorage(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    const { client } = session.database;
    const statements = await readStatements();
    process.stdout.write(`WAL per create:\n${markdownTable(await measureWal(session, statements))}\n`);
    await measureSizes(client, statements, options.forms);
  });
}

/** WAL of creates right after a checkpoint, and later, when their pages have been written as a whole. */
async function measureWal(session: Session, { wal, outdate }: Statements): Promise<string[][]> {
  const { client } = session.database;
  const service = await session.start("service");
  const { requests } = findOperation(session, "create");
  await client.query(outdate);
  await client.query("CHECKPOINT");
  const rows = [["creates", "", "records", "whole pages", "bytes"]];
  for (const [title, firstSerial] of [
    ["after a checkpoint", 0],
    ["later", 1_000_000],
  ] as const) {
    const readWal = async () => {
      await sleep(WAL_REPORT_MS);
      return (await client.query<{ records: number; pages: number; bytes: number }>(wal)).rows[0];
    };
    const count = async () => Number((await client.query("SELECT count(*)::int AS n FROM creations")).rows[0].n);
    const [before, creations] = [await readWal(), await count()];
    const stop = startCreates(service, requests, firstSerial);
    await sleep(CREATES_MS);
    await stop();
    const [after, created] = [await readWal(), (await count()) - creations];
    if (!before || !after) throw new Error("pg_stat_wal is empty.");
    const each = (name: keyof typeof after) => ((after[name] - before[name]) / created).toFixed(1);
    rows.push([title, `${created}`, each("records"), each("pages"), each("bytes")]);
    if (firstSerial === 0) await sleep(CREATES_LATER_MS);
  }
  await service.stop();
  return rows;
}

/** Prints the sizes after each step. The database is filled again by the next run. */
async function measureSizes(client: pg.Client, statements: Statements, forms: number): Promise<void> {
  const { sizes, update, vacuum, reindex, outdate } = statements;
  const run = async (title: string, work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const { rows } = await client.query<{ table: string; rows: string; indexes: string }>(sizes);
    const cells = rows.map(({ table, rows: bytes, indexes }) => [table, "", bytes, indexes]);
    const head = ["table", "", "bytes of its rows per form", "bytes of its indexes"];
    process.stdout.write(`${title} (${seconds} s):\n${markdownTable([head, ...cells])}\n`);
  };
  const updateTenth = async () => {
    for (let updated = 0; updated < forms / 10; updated += UPDATES_PER_STATEMENT) await client.query(update, [forms]);
  };
  progress("Updating a tenth of the forms, twice …");
  await client.query(outdate);
  await run("filled", async () => {});
  await run("a tenth of the forms updated", updateTenth);
  await run("another tenth updated", updateTenth);
  await run("VACUUM forms", () => client.query(vacuum));
  await run("REINDEX TABLE CONCURRENTLY forms", () => client.query(reindex));
}
