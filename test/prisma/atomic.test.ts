import { expect, test } from "vitest";
import { isAtomic } from "../../prisma/engine.js";

test.each([
  "ALTER TABLE a ADD b int; -- the end of a column; commit nothing",
  "/* Commit it\n   in the end. */ DROP TABLE a;",
  "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;",
  "UPDATE a SET b = 'it''s the end';",
  `ALTER TABLE a RENAME "end" TO b;`,
])("isAtomic accepts a script that runs as one transaction: %s", (script) =>
  expect(isAtomic(script)).toBe(true),
);

test.each([
  "CREATE INDEX CONCURRENTLY i ON a (b);",
  "DROP TABLE a; COMMIT; DROP TABLE b;",
  "-- a comment\nCOMMIT;",
  "/* a comment */ VACUUM a;",
  "UPDATE a SET b = '--'; COMMIT;",
  "UPDATE a SET b = '/*'; COMMIT; -- */",
  "UPDATE a SET b = E'\\'--'; COMMIT;",
  "-- it's\nCOMMIT; -- isn't it",
  "-- $$\nCOMMIT; -- $$",
])("isAtomic rejects a script that does not run as one transaction: %s", (script) =>
  expect(isAtomic(script)).toBe(false),
);
