import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { splitIndexes } from "../../prisma/diff.js";
import { measureLocks } from "../../prisma/measure-locks.js";
import { migrationNames, readScript } from "../../prisma/migration-files.js";
import { findViolations } from "../../prisma/migration-rules.js";
import { formatLocks, parseScript, type Statement } from "../../prisma/script.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";

const names = await migrationNames();

/** Written before the rules: it builds an index on `users`, which is small. */
const OLDER_THAN_RULES = "20261122081200_user_email_ignores_case";

const measured = new Map<string, Statement[]>();
/** Connections to a database with all migrations. */
let client: pg.Client;
let other: pg.Client;

beforeAll(async () => {
  const { url } = await createTestDatabase({ empty: true });
  [client, other] = await Promise.all([connect(url), connect(url)]);
  for (const name of names) measured.set(name, await measureLocks(client, other, await readScript(name)));
});

async function connect(url: string): Promise<pg.Client> {
  const connected = new pg.Client({ connectionString: url });
  await connected.connect();
  afterFile(() => connected.end());
  return connected;
}

test.each(names)(
  "the comments of %s state the locks that Postgres takes on existing tables",
  async (name) => {
    const format = (list: Statement[]) => list.map(({ sql, locks }) => [formatLocks(locks), sql]);
    expect(format(parseScript(await readScript(name)).statements)).toEqual(format(measured.get(name) ?? []));
  },
);

test.each(names.filter((name) => name !== OLDER_THAN_RULES))(
  "%s makes no request fail or wait: it follows the rules of CONTRIBUTING.md",
  async (name) => expect(findViolations(await readScript(name), measured.get(name) ?? [])).toEqual([]),
);

describe("a migration that would make requests fail or wait is found", () => {
  test.each([
    ["CREATE INDEX i ON forms (status);", "reads forms while writes wait"],
    [
      "ALTER TABLE forms ADD COLUMN random UUID DEFAULT gen_random_uuid();",
      "rewrites forms while writes wait",
    ],
    ["ALTER TABLE listings ALTER COLUMN district SET NOT NULL;", "reads listings while writes wait"],
    ["ALTER TABLE listings ADD CHECK (max_vehicles >= 0);", "reads listings while writes wait"],
    ["ALTER TABLE users ADD COLUMN a INT; ALTER TABLE forms ADD COLUMN a INT;", "wait on users and forms"],
    ["ALTER TABLE forms DROP COLUMN number_of_pets;", "breaks the version before"],
    ["ALTER TABLE forms RENAME COLUMN status TO state;", "breaks the version before"],
    ["ALTER TABLE forms ALTER COLUMN status DROP DEFAULT;", "breaks the version before"],
    ["ALTER TABLE memberships DROP CONSTRAINT memberships_pkey;", "breaks the version before"],
    ["DROP INDEX CONCURRENTLY forms_email_due_idx;", "breaks the version before"],
    [
      "ALTER TABLE listings ADD CONSTRAINT c CHECK (max_vehicles >= 0) NOT VALID;",
      "breaks the version before",
    ],
    ["ALTER TABLE users ADD COLUMN a INT NOT NULL;", "reads users while writes wait"],
    ["UPDATE users SET name = 'nobody';", "changes rows"],
  ])("%s", async (sql, violation) => {
    const { url } = await createTestDatabase();
    const [one, two] = await Promise.all([connect(url), connect(url)]);
    const found = findViolations(sql, await measureLocks(one, two, sql));
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
    const [one, two] = await Promise.all([connect(url), connect(url)]);
    await one.query("ALTER TABLE users ADD CONSTRAINT c CHECK (name <> '') NOT VALID");
    expect(findViolations(sql, await measureLocks(one, two, sql))).toEqual([]);
  });
});

test("a new index on an existing table gets a migration of its own, which builds it CONCURRENTLY", () =>
  expect(
    splitIndexes(
      '-- AlterTable\nALTER TABLE "forms" ADD COLUMN "a" INT;\n\nCREATE TABLE "b" ("c" INT);\n' +
        'CREATE INDEX "b_c_idx" ON "b"("c");\n\n-- CreateIndex\nCREATE UNIQUE INDEX "forms_a_key" ON "forms"("a");',
    ),
  ).toEqual([
    'ALTER TABLE "forms" ADD COLUMN "a" INT;\nCREATE TABLE "b" ("c" INT);\nCREATE INDEX "b_c_idx" ON "b"("c");\n',
    'CREATE UNIQUE INDEX CONCURRENTLY "forms_a_key" ON "forms"("a");\n',
  ]));
