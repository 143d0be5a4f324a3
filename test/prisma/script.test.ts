import { expect, test } from "vitest";
import { formatLocks, parseScript } from "../../prisma/script.js";

test.each([
  "ALTER TABLE a ADD b int; -- the end of a column; commit nothing",
  "/* Commit it\n   in the end. */ DROP TABLE a;",
  "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;",
  "UPDATE a SET b = 'it''s the end';",
  `ALTER TABLE a RENAME "end" TO b;`,
])("a script runs as one transaction: %s", (script) => {
  expect(parseScript(script).kind).toBe("transaction");
  expect(parseScript(script).statements).toHaveLength(1);
});

test.each([
  ["CREATE INDEX CONCURRENTLY i ON a (b);", "create"],
  ['-- A comment.\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "i" ON "a" ("b")', "create"],
  ["drop index concurrently if exists i;\n-- the end", "drop"],
])("a script builds or drops an index outside a transaction: %s", (script, action) => {
  expect(parseScript(script)).toMatchObject({ kind: "concurrent", action, index: "i" });
});

test.each([
  "DROP TABLE a; COMMIT; DROP TABLE b;",
  "-- a comment\nCOMMIT;",
  "/* a comment */ VACUUM a;",
  "UPDATE a SET b = '--'; COMMIT;",
  "UPDATE a SET b = '/*'; COMMIT; -- */",
  "UPDATE a SET b = E'\\'--'; COMMIT;",
  "-- it's\nCOMMIT; -- isn't it",
  "-- $$\nCOMMIT; -- $$",
  "CREATE INDEX CONCURRENTLY i ON a (b); CREATE INDEX CONCURRENTLY j ON a (c);",
  "ALTER TABLE a ADD b int; CREATE INDEX CONCURRENTLY i ON a (b);",
  "REINDEX INDEX CONCURRENTLY i;",
  "CREATE INDEX CONCURRENTLY ON a (b);",
  "DROP INDEX CONCURRENTLY public.i;",
  "DROP INDEX CONCURRENTLY i, j;",
  "UPDATE a SET b = 1; ABORT;",
])("a script is rejected if it cannot run as one transaction: %s", (script) =>
  expect(() => parseScript(script)).toThrow("may end its transaction or not run in one"),
);

test("the comment before a statement states its locks", () => {
  const script =
    "-- A new column.\n-- Locks: a ACCESS EXCLUSIVE\nALTER TABLE a ADD b int;\n\nCREATE TABLE c (d int);\n" +
    "-- Locks: a SHARE ROW EXCLUSIVE and reads it, b ROW SHARE\nALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b;";
  const { statements } = parseScript(script);
  expect(statements).toEqual([
    { sql: "ALTER TABLE a ADD b int", locks: [{ table: "a", mode: "ACCESS EXCLUSIVE" }] },
    { sql: "CREATE TABLE c (d int)", locks: [] },
    {
      sql: "ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b",
      locks: [
        { table: "a", mode: "SHARE ROW EXCLUSIVE", work: "reads" },
        { table: "b", mode: "ROW SHARE" },
      ],
    },
  ]);
  for (const { locks } of statements.filter(({ locks }) => locks.length > 0)) {
    expect(script).toContain(formatLocks(locks));
  }
});

test("a malformed statement of locks is rejected", () =>
  expect(() => parseScript("-- Locks: everything\nDROP TABLE a;")).toThrow("malformed lock: everything"));
