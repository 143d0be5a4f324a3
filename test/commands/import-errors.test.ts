import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { asOperator, makeUser } from "../support/factories.js";
import { runCli } from "../support/processes.js";
import { commandsWith, runInProcess } from "../support/run-in-process.js";
import { makeRows, openImporter, toNdjson } from "./importer.js";

const { env, services, folder, write, importRows } = await openImporter();
const { failure } = commandsWith(env);

describe("an invalid file", () => {
  const countRows = async () => {
    const tables = ["users", "listings", "memberships"].map((name) => `(SELECT count(*) FROM ${name}) ${name}`);
    return (await services.db.pool.query(`SELECT ${tables}`)).rows;
  };

  /** Imports the file, which must fail and write nothing. Returns the errors. */
  async function errorsOf(path: string): Promise<string[]> {
    const before = await countRows();
    const { code, message, stdout } = await runInProcess(["import", path], env);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(await countRows()).toEqual(before);
    const lines = message.split("\n");
    expect(lines.at(-1)).toBe(`Nothing was imported. Errors in ${path}: ${lines.length - 1}.`);
    return lines.slice(0, -1);
  }

  test("an id of a listing or user that has another external id, of an erased user, or that is no UUID, is an error", async () => {
    const { ana, ben, loft } = makeRows();
    await importRows(ana, ben, loft);
    const { id } = await commandsWith(env).json("listings", "show", loft.externalId);
    const { id: userId } = await commandsWith(env).json("users", "show", ana.externalId);
    const other = { ...loft, externalId: `${loft.externalId}-2`, id };
    const gone = await makeUser(services);
    await asOperator(services).people.eraseUser({ id: gone.id });
    const unknown = { type: "membership", listing: loft.externalId, user: gone.id, role: "OWNER" };
    const cut = { ...makeRows().loft, id: id.slice(0, 30) };
    expect(await errorsOf(write("taken-ids.ndjson", [other, { ...ben, id: userId }, unknown, cut]))).toEqual([
      `line 1: id: belongs to another listing: ${loft.externalId}`,
      `line 2: id: belongs to another user: ${ana.externalId}`,
      "line 3: user: names no user of the file or the database: give an externalId, an id or an email address",
      "line 4: id: must be a UUID",
    ]);
  });

  test("writes nothing and reports every error of every line with its field", async () => {
    const { ana, ben, loft, owns, id } = makeRows();
    const { title: _, ...untitled } = loft;
    const taken = await makeUser(services);
    const other = { ...makeRows().ana, externalId: `${id}-other` };
    await importRows(other);
    const invalid = toNdjson(
      { ...ana, email: "ana@", nickname: "Ana" },
      { ...untitled, timezone: "Berlin", maxPeopleInListing: "4", active: "yes", language: "de_DE" },
      owns,
    );
    const conflicting = toNdjson(
      { ...ben, type: "guest" },
      { externalId: "x" },
      ben,
      { ...ben, email: `x.${ben.email}` },
      { ...ben, externalId: "y", email: ben.email.toUpperCase() },
      { ...owns, user: ben.externalId },
      { ...owns, user: ben.email, role: "READER" },
      { ...owns, user: `${id}-nobody`, listing: "no" },
      { ...owns, role: "host" },
      { type: "user", externalId: `${id}-z`, email: other.email },
      { type: "user", externalId: taken.id, email: other.email },
    );
    const errors = await errorsOf(write("bad.ndjson", `${invalid}[1]\n\n{\n${conflicting}`));
    expect(errors.map((line) => line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, "ID"))).toEqual([
      "line 1: email: must be an email address",
      "line 1: nickname: is not a known property",
      "line 2: title: is required",
      "line 2: timezone: must be an IANA time zone of an area and city, such as Europe/Berlin",
      "line 2: active: must be true or false",
      "line 2: maxPeopleInListing: must be an integer",
      "line 2: language: must be a language such as de or pt-BR",
      "line 4: row: must be one JSON object",
      "line 6: row: must be one JSON object",
      "line 7: type: must be one of user, listing and membership",
      "line 8: type: must be one of user, listing and membership",
      "line 10: externalId: is already on line 9",
      "line 11: email: is already on line 9",
      "line 13: user: already has a role on this listing, on line 12",
      "line 14: listing: names no listing of the file or the database: give an externalId or an id",
      "line 14: user: names no user of the file or the database: give an externalId, an id or an email address",
      "line 15: role: must be one of OWNER, WRITER and READER",
      "line 16: email: another user has this address: ID",
      "line 17: email: is already on line 16",
    ]);
  });

  test("has its errors in JSON with --json", async () => {
    const path = write("bad.ndjson", [{ type: "user", externalId: "", email: "a@example.com" }]);
    const { stdout, stderr, code } = await runCli(["import", path, "--json"], { env });
    expect(JSON.parse(stdout).error).toMatchObject({
      code: "VALIDATION_ERROR",
      errors: [{ line: 1, field: "externalId", issue: "must not be empty" }],
    });
    expect(code).toBe(1);
    expect(stderr).toContain("error: line 1: externalId: must not be empty\n");
  });

  test("that is not CSV is reported with the line, after the errors of the lines before it", async () => {
    const lines = ["type,externalId,email", "user,,x@example.com", '"user",q1,"q1@example.com', "", "user,1"];
    expect(await errorsOf(write("bad.csv", lines.join("\n")))).toEqual([
      "line 2: externalId: is required",
      "line 3: row: opens a quote that is never closed. The rest of the file was not checked",
    ]);
    expect(await errorsOf(write("bad.csv", 'type,externalId\nuser,"a\nb",c\nuser,x"y\nuser,z'))).toEqual([
      "line 2: row: has 3 values, but the header has 2 columns",
      'line 4: row: has a misplaced quote: write "" for a quote in a quoted value. The rest of the file was not checked',
    ]);
  });

  test.each([
    ["an unknown column", "type,externalID\nuser,1", /^line 1: externalID: is not a known column: use type, /],
    ["a repeated column", "type,type\nuser,user", /^line 1: type: is there twice$/],
    ["another separator", "type;externalId\nuser;1", /^line 1: type: is required as a column/],
    ["nothing", "", /^line 1: type: is required as a column/],
    [
      "a cell that its type does not have",
      "type,externalId,email,title\nuser,t1,t1@example.com,Loft",
      /^line 2: title: is not a known property$/,
    ],
  ])("with %s is rejected", async (_, content, expected) => {
    expect((await errorsOf(write("header.csv", content)))[0]).toMatch(expected);
  });

  test("that is not UTF-8 is reported with each line", async () => {
    const bytes = Buffer.concat([Buffer.from("type\nuser\n"), Buffer.from([0xe4, 10]), Buffer.from("x\n")]);
    expect(await errorsOf(write("latin.csv", bytes))).toEqual(["line 3: row: must be UTF-8"]);
  });

  test("that is missing or has an unknown format is an error", async () => {
    const missing = join(folder, "no.csv");
    expect(await failure("import", missing)).toEqual([1, `Cannot read ${missing}: there is no such file.`]);
    const unknown = "The file is neither .csv nor .ndjson: add --format.";
    expect(await failure("import", "hosts.txt")).toEqual([2, unknown]);
  });
});
