import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { openTestCore } from "../support/core.js";

const root = packageRoot();

const sources = ["server", "gateway", "prisma"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => path.endsWith(".ts") && !path.startsWith(join("prisma", "client")))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") })),
);

const pathsOf = (pattern: RegExp) => sources.filter(({ text }) => pattern.test(text)).map(({ path }) => path);

describe("the database rejects a second writer of forms, in all tests that run it", async () => {
  const { db } = (await openTestCore()).services;

  test.each([
    "WITH changed AS (UPDATE forms SET status = 'SENT' RETURNING id) SELECT * FROM changed",
    "MERGE INTO forms f USING listings l ON l.id = f.listing_id WHEN MATCHED THEN DELETE",
    "TRUNCATE listings CASCADE",
    "DO $$ BEGIN EXECUTE 'UPDATE fo' || 'rms SET status = status'; END $$",
    "UPDATE creations SET answer = answer",
    "DELETE FROM idempotency_keys",
  ])("%s", async (text) => {
    const rejection = /a second writer of (forms|creations|idempotency_keys): /;
    await expect(db.query(text.slice(-60), text, [])).rejects.toThrow(rejection);
    await expect(db.sqlTransaction((tx) => tx.query(text.slice(-60), text, []))).rejects.toThrow(rejection);
    await expect(db.prisma.$executeRawUnsafe(text)).rejects.toThrow(rejection);
  });
});

describe("only write-form.ts writes forms", () => {
  // The database sees only what a test runs, and only what the service prepares.
  test("SQL that writes forms, creations or idempotency_keys is only in queries.ts and idempotency.ts; retention.ts deletes keys and forms by their tables", () => {
    const table = String.raw`(ONLY\s+|TABLE\s+)*(("?\w+"?)\s*\.\s*)?"?(forms|creations|idempotency_keys)\b`;
    const writes = new RegExp(
      String.raw`\b(INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE|COPY|(?<!FOR (NO KEY )?)UPDATE)\s+${table}`,
    );
    const names = ["idempotency", "queries"];
    expect(pathsOf(writes).toSorted()).toEqual(names.map((name) => `server/forms/${name}.ts`));
  });

  test("only these files use connections on which statements are not prepared; none of them writes forms", () => {
    const connections = /\bdb\.pool\b|\bpool\b[^}=]*\}\s*=|new pg\.(Pool|Client)\b|\b(openPool|openSession)\(/;
    expect(pathsOf(connections).toSorted()).toEqual([
      ...[
        "gateway/build/migration/diff.ts",
        "gateway/doctor/checks.ts",
        "gateway/processes/gateway.ts",
        "gateway/runtime/readiness.ts",
      ],
      ...["prisma/migrate.ts", "prisma/role-settings.ts", "prisma/session.ts"],
      ...["server/database/db.ts", "server/database/pool.ts", "server/database/standby.ts", "server/services.ts"],
    ]);
  });

  test("only write-form.ts, and for their one purpose erase.ts and reencrypt.ts, import functions that write", () => {
    const callers = {
      "forms/write-form": ["insertForm", "updateForm", "bindKey", "releaseFingerprint"],
      "erasure/erase": ["eraseGuestEmails"],
      "secrets/reencrypt": ["renewForms", "renewCreation"],
    };
    const writers = ["forms/queries", "forms/idempotency"];
    for (const [caller, names] of Object.entries(callers)) {
      for (const name of names) {
        const users = pathsOf(new RegExp(String.raw`(?<!["\w])${name}\b`)).filter(
          (path) => path !== `server/${caller}.ts`,
        );
        expect(writers.map((writer) => `server/${writer}.ts`)).toEqual(expect.arrayContaining(users));
      }
    }
    // Other ways to import them would not name them.
    const others = /\b(import\(|import \* as \w+ from |export \{[^}]*\} from )"[^"]*\/(queries|idempotency[\w-]*)\.js"/;
    expect(pathsOf(others)).toEqual([]);
  });
});
