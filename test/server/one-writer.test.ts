import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

const root = packageRoot();

const sources = ["server", "gateway", "prisma"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => join(folder, path))
    .filter((path) => path.endsWith(".ts") && !path.startsWith(join("prisma", "client")))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") })),
);

const pathsOf = (pattern: RegExp) => sources.filter(({ text }) => pattern.test(text)).map(({ path }) => path);

describe("only write-form.ts writes forms", () => {
  test("SQL that writes forms, creations or idempotency_keys is only in idempotency.ts and queries.ts", () => {
    const table = '"?(forms|creations|idempotency_keys)"?';
    const writes = new RegExp(
      `\\b((INSERT\\s+INTO|DELETE\\s+FROM|TRUNCATE)\\s+${table}|UPDATE\\s+${table}\\s+(\\w+\\s+)?SET)\\b`,
      "i",
    );
    expect(pathsOf(writes)).toEqual(["server/forms/idempotency.ts", "server/forms/queries.ts"]);
  });

  test("Prisma's client never writes forms, creations or Idempotency-Keys", () => {
    const writes = /\.(form|creation|idempotencyKey)\.(create|update|upsert|delete)/;
    expect(pathsOf(writes)).toEqual([]);
  });

  test("only write-form.ts imports insertForm and updateForm, only erase.ts eraseGuestEmails, and only reencrypt.ts renewForms and renewCreation", () => {
    expect(pathsOf(/\bimport\b[^;]*\b(insertForm|updateForm)\b[^;]*from/)).toEqual([
      "server/forms/write-form.ts",
    ]);
    expect(pathsOf(/\bimport\b[^;]*\beraseGuestEmails\b[^;]*from/)).toEqual(["server/people/erase.ts"]);
    expect(pathsOf(/\bimport\b[^;]*\b(renewForms|renewCreation)\b[^;]*from/)).toEqual([
      "server/rotation/reencrypt.ts",
    ]);
  });
});
