import pg from "pg";
import { expect, test, vi } from "vitest";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { fill, isFilled } from "./fill.js";
import { measureSizes, readStatements } from "./storage.js";

const FORMS = 10_000;

test("the statements of --storage run, report the size of every table, and outdate the database", async () => {
  const { url } = await createTestDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  afterFile(() => client.end());
  expect(await isFilled(client, FORMS)).toBe(false);
  await fill(client, FORMS);
  expect(await isFilled(client, FORMS)).toBe(true);

  const statements = await readStatements();
  const printed: string[] = [];
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => printed.push(String(text)) > 0);
  await measureSizes(client, statements, FORMS).finally(() => write.mockRestore());
  expect(printed).toHaveLength(5);
  for (const text of printed) {
    const rows = [...text.matchAll(/^\| (\w+) +\|[ ]*\| +(\d+) \| +(\d+) \|$/gm)];
    const tables = ["audit_entries", "creations", "forms", "idempotency_keys", "scoped_forms"];
    expect(rows.map(([, table]) => table).toSorted()).toEqual(tables);
    for (const [, , rowBytes, indexBytes] of rows)
      expect(Math.min(Number(rowBytes), Number(indexBytes))).toBeGreaterThan(0);
  }
  const { rows } = await client.query("SELECT count(*)::int AS n FROM audit_entries WHERE action = 'form.updated'");
  // Of 1,000 random forms of 10,000, some are the same.
  expect(rows[0].n).toBeGreaterThan(1_800);
  expect(rows[0].n).toBeLessThanOrEqual(2_000);
  const [wal] = (await client.query(statements.wal)).rows;
  expect(Object.values(wal).every(Number.isFinite)).toBe(true);
  expect(await isFilled(client, FORMS)).toBe(false);
});
