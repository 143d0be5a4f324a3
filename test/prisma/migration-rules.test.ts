import { beforeAll, describe, expect, test } from "vitest";
import { migrationNames, readScript } from "../../prisma/migration-files.js";
import { createTestDatabase } from "../support/database.js";
import { runSql } from "../support/run-sql.js";
import { formatLocks, type Lock, measureLocks } from "./measure-locks.js";
import { findViolations } from "./migration-rules.js";

const names = await migrationNames();

const measured = new Map<string, Lock[]>();
beforeAll(async () => {
  const { url } = await createTestDatabase({ empty: true });
  for (const name of names) measured.set(name, await measureLocks(url, await readScript(name)));
});

test.each(names)("the first line of %s states the locks that Postgres takes on existing tables", async (name) => {
  const [stated = ""] = /^-- Locks: .*\n/.exec(await readScript(name)) ?? [];
  expect(stated).toBe(formatLocks(measured.get(name) ?? []));
});

test.each(names)("%s makes no request fail or wait: it follows the rules of CONTRIBUTING.md", async (name) =>
  expect(findViolations(await readScript(name), measured.get(name) ?? [])).toEqual([]),
);

describe("a migration that would make requests fail or wait is found", () => {
  test.each([
    ["CREATE INDEX i ON forms (status);", "reads forms while writes wait"],
    ["ALTER TABLE forms ADD COLUMN random UUID DEFAULT gen_random_uuid();", "rewrites forms while writes wait"],
    ["ALTER TABLE listings ALTER COLUMN district SET NOT NULL;", "reads listings while writes wait"],
    ["ALTER TABLE listings ADD CHECK (max_vehicles >= 0);", "reads listings while writes wait"],
    ["ALTER TABLE users ADD COLUMN a INT; ALTER TABLE forms ADD COLUMN a INT;", "wait on forms and users"],
    ["ALTER TABLE forms DROP COLUMN number_of_pets;", "breaks the version before"],
    ["ALTER TABLE forms RENAME COLUMN status TO state;", "breaks the version before"],
    ["ALTER TABLE forms ALTER COLUMN status DROP DEFAULT;", "breaks the version before"],
    ["ALTER TABLE memberships DROP CONSTRAINT memberships_pkey;", "breaks the version before"],
    ["DROP INDEX CONCURRENTLY forms_email_due_idx;", "breaks the version before"],
    ["ALTER TABLE listings ADD CONSTRAINT c CHECK (max_vehicles >= 0) NOT VALID;", "breaks the version before"],
    ["ALTER TABLE users ADD COLUMN a INT NOT NULL;", "reads users while writes wait"],
    ["UPDATE users SET name = 'nobody';", "changes rows"],
    ["CREATE TABLE a (b int);\nCOMMIT;", "may be applied in part"],
  ])("%s", async (sql, violation) => {
    const { url } = await createTestDatabase();
    const found = findViolations(sql, await measureLocks(url, sql));
    expect(found.join()).toContain(violation);
  });

  test.each([
    "ALTER TABLE forms ADD COLUMN note TEXT;",
    "ALTER TABLE forms ADD COLUMN count INT NOT NULL DEFAULT 0;",
    "CREATE INDEX CONCURRENTLY i ON forms (status);",
    "CREATE TABLE notes (form_id UUID REFERENCES forms (id));",
    "-- Contract: no version writes less than 0.\nALTER TABLE listings ADD CONSTRAINT c CHECK (max_vehicles >= 0) NOT VALID;",
    "ALTER TABLE users VALIDATE CONSTRAINT c;",
    "-- Contract: unused since 1.2.0.\nALTER TABLE forms DROP COLUMN number_of_pets;",
  ])("and one that does not is accepted: %s", async (sql) => {
    const { url } = await createTestDatabase();
    await runSql(url, "ALTER TABLE users ADD CONSTRAINT c CHECK (name <> '') NOT VALID");
    expect(findViolations(sql, await measureLocks(url, sql))).toEqual([]);
  });
});
