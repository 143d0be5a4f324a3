import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { Services } from "../../server/context.js";
import type { Db } from "../../server/db.js";
import { makeListing, makeUser, openTestServices } from "../support/factories.js";

const root = packageRoot();

interface Source {
  path: string;
  text: string;
}

const sources: Source[] = ["server", "gateway", "prisma"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => path.endsWith(".ts") && !path.startsWith(join("prisma", "client")))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") })),
);

const pathsOf = (pattern: RegExp) => sources.filter(({ text }) => pattern.test(text)).map(({ path }) => path);

describe("the database rejects a second writer of forms, in all tests that run it", () => {
  let services: Services;
  let listingId: string;
  let userId: string;

  beforeAll(async () => {
    services = await openTestServices();
    userId = (await makeUser(services)).id;
    listingId = (await makeListing(services, userId)).id;
  });

  const form = () => ({ publicId: randomUUID(), fingerprint: Buffer.alloc(32) });
  const INSERT =
    "INTO forms (public_id, listing_id, fingerprint) SELECT gen_random_uuid(), id, '' FROM listings";

  test.each([
    "UPDATE forms SET status = 'SENT'",
    "UPDATE forms AS f SET status = 'SENT'",
    "UPDATE public.forms SET status = 'SENT'",
    'update only "public" . "forms" set status = \'SENT\'',
    "UPDATE /* all */ forms SET status = 'SENT'",
    "WITH changed AS (UPDATE forms SET status = 'SENT' RETURNING id) SELECT * FROM changed",
    `INSERT ${INSERT}`,
    "MERGE INTO forms f USING listings l ON l.id = f.listing_id WHEN MATCHED THEN UPDATE SET status = 'SENT'",
    "MERGE INTO forms f USING listings l ON l.id = f.listing_id WHEN MATCHED THEN DELETE",
    "DELETE FROM forms",
    "DELETE FROM listings",
    "TRUNCATE users, forms CASCADE",
    "TRUNCATE listings CASCADE",
    "DO $$ BEGIN EXECUTE 'UPDATE fo' || 'rms SET status = status'; END $$",
    "UPDATE creations SET answer = answer",
    "DELETE FROM idempotency_keys",
  ])("%s", async (text) => {
    const { db } = services;
    const rejection = /^a second writer of (forms|creations|idempotency_keys): /;
    await expect(db.query(text.slice(-60), text, [])).rejects.toThrow(rejection);
    const inTransaction = db.sqlTransaction(async (tx) => {
      await tx.query("one", "SELECT 1", []);
      await tx.query(text.slice(-60), text, []);
    });
    await expect(inTransaction).rejects.toThrow(rejection);
    await expect(db.prisma.$executeRawUnsafe(text)).rejects.toThrow(/a second writer of/);
    await expect(db.transaction((tx) => tx.$queryRawUnsafe(text))).rejects.toThrow(/a second writer of/);
  });

  test.each<[name: string, write: (db: Db["prisma"]) => Promise<unknown>]>([
    ["form.create", (prisma) => prisma.form.create({ data: { ...form(), listingId } })],
    ["form.updateMany", (prisma) => prisma.form.updateMany({ data: { status: "SENT" } })],
    ["form.deleteMany", (prisma) => prisma.form.deleteMany()],
    [
      "listing.update with forms.create",
      (prisma) => prisma.listing.update({ where: { id: listingId }, data: { forms: { create: form() } } }),
    ],
    [
      "listing.update with forms.updateMany",
      (prisma) =>
        prisma.listing.update({
          where: { id: listingId },
          data: { forms: { updateMany: { where: {}, data: { status: "SENT" } } } },
        }),
    ],
    ["listing.delete", (prisma) => prisma.listing.delete({ where: { id: listingId } })],
  ])("Prisma's %s", async (_, write) => {
    await expect(write(services.db.prisma)).rejects.toThrow(/a second writer of/);
  });
});

describe("only write-form.ts writes forms", () => {
  // The database sees only what a test runs, and only what the service prepares.
  test("SQL that writes forms, creations or idempotency_keys is only in queries.ts, idempotency.ts and idempotency-key-retention.ts", () => {
    const table = String.raw`(ONLY\s+|TABLE\s+)*(("?\w+"?)\s*\.\s*)?"?(forms|creations|idempotency_keys)\b`;
    const writes = new RegExp(
      String.raw`\b(INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE|COPY|(?<!FOR (NO KEY )?)UPDATE)\s+${table}`,
    );
    expect(pathsOf(writes).toSorted()).toEqual([
      "server/forms/idempotency-key-retention.ts",
      "server/forms/idempotency.ts",
      "server/forms/queries.ts",
    ]);
  });

  test("Prisma's client never writes forms, creations or Idempotency-Keys", () => {
    const writes = /\.(form|creation|idempotencyKey)\.(create|update|upsert|delete)/;
    expect(pathsOf(writes)).toEqual([]);
  });

  test("only these files use connections on which statements are not prepared; none of them writes forms", () => {
    const connections =
      /\bdb\.pool\b|\bpool\b[^}=]*\}\s*=|new pg\.(Pool|Client)\b|\b(openPool|openSession)\(/;
    expect(pathsOf(connections).toSorted()).toEqual([
      ...[
        "gateway/commands/pending-migrations.ts",
        "gateway/doctor/database.ts",
        "gateway/doctor/secrets.ts",
      ],
      ...["gateway/http/readiness.ts", "gateway/internal/fleet.ts", "gateway/serve.ts", "prisma/diff.ts"],
      ...["prisma/engine.ts", "prisma/migrate.ts", "prisma/role-settings.ts", "prisma/session.ts"],
      ...["server/db.ts", "server/pool.ts", "server/services.ts"],
    ]);
  });

  const WRITERS: Record<string, Record<string, string>> = {
    "server/forms/queries.ts": {
      insertForm: "server/forms/write-form.ts",
      updateForm: "server/forms/write-form.ts",
      eraseGuestEmails: "server/people/erase.ts",
      renewForms: "server/rotation/reencrypt.ts",
    },
    "server/forms/idempotency.ts": {
      bindKey: "server/forms/write-form.ts",
      releaseFingerprint: "server/forms/write-form.ts",
      replay: "server/forms/write-form.ts",
      renewCreation: "server/rotation/reencrypt.ts",
    },
    "server/forms/idempotency-key-retention.ts": {
      dateKeys: "server/retention.ts",
      deleteOldKeys: "server/retention.ts",
    },
  };

  /** What a file imports of the modules that write forms: the functions that write, or "everything". */
  function writersIn({ path, text }: Source): string[] {
    return [...text.matchAll(/["'`]([^"'`]*\.js)["'`]/g)].flatMap(({ 1: specifier = "", index }) => {
      const functions = WRITERS[join(dirname(path), specifier.replace(/js$/, "ts"))];
      if (!functions) return [];
      const named = /\bimport (?:type )?\{([^}]*)\} from $/.exec(text.slice(0, index))?.[1];
      if (named === undefined) return ["everything"];
      return named
        .split(",")
        .flatMap((part) => /^\s*(\w+)/.exec(part)?.[1] ?? [])
        .filter((name) => name in functions);
    });
  }

  test.each([
    ['import { lockForm, updateForm as change } from "./queries.js";', ["updateForm"]],
    ['import type { FormRow } from "./queries.js";', []],
    ['import * as queries from "./queries.js";', ["everything"]],
    ['import { type FormRow } from "./queries.js"; export * from "./idempotency.js";', ["everything"]],
    ['export { updateForm } from "./queries.js";', ["everything"]],
    ['const { bindKey } = await import("./idempotency.js");', ["everything"]],
    ["const queries = require('./queries.js');", ["everything"]],
    ['import { selectListing } from "../listings/queries.js";', []],
  ])("what %s imports is found", (text, found) => {
    expect(writersIn({ path: "server/forms/other.ts", text })).toEqual(found);
  });

  test("only write-form.ts, and for their one purpose erase.ts, reencrypt.ts and retention.ts, import functions that write", () => {
    const expected = Object.values(WRITERS).flatMap((functions) =>
      Object.entries(functions).map(([name, path]) => `${path}: ${name}`),
    );
    const found = sources.flatMap((source) => writersIn(source).map((name) => `${source.path}: ${name}`));
    expect(found.toSorted()).toEqual(expected.toSorted());
    for (const { path, text } of sources)
      expect([path, /\bexport \{/.test(text) && path in WRITERS]).toEqual([path, false]);
  });
});
