import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { asOperator, makeUser } from "../support/factories.js";
import { runCli } from "../support/processes.js";
import { commandsWith } from "../support/run-in-process.js";
import { makeRows, openImporter, toNdjson } from "./importer.js";

const { env, services, folder, write, importRows, errorsOf } = await openImporter();
const { failure } = commandsWith(env);

describe("an invalid file", () => {
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
      "line 12: role: must be one of OWNER, WRITER and READER",
      "line 13: email: another user has this address: ID",
      "line 14: email: is already on line 13",
    ]);
  });

  test("a membership that is there twice, or names what neither the file nor the database has, is an error", async () => {
    const { ana, ben, loft, owns, id } = makeRows();
    const { title: _, ...untitled } = makeRows().loft;
    const memberships = [
      { ...owns, user: ben.externalId },
      { ...owns, user: ben.email, role: "READER" },
      { ...owns, user: `${id}-nobody`, listing: "no" },
    ];
    expect(await errorsOf(write("unknown.ndjson", [ana, ben, loft, untitled, ...memberships]))).toEqual([
      "line 4: title: is required",
      "line 6: user: already has a role on this listing, on line 5",
      "line 7: listing: names no listing of the file or the database: give an externalId or an id",
      "line 7: user: names no user of the file or the database: give an externalId, an id or an email address",
    ]);
  });

  test("names the property that a misspelled one almost is", async () => {
    const { ana } = makeRows();
    const { externalId, ...rest } = ana;
    expect(await errorsOf(write("near.ndjson", [{ ...rest, externalID: externalId }]))).toEqual([
      "line 1: externalId: is required",
      "line 1: externalID: is not a known property: did you mean externalId?",
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
    ["an unknown column", "type,externalId,notes\nuser,1,2", /^line 1: notes: is not a known column: use type, /],
    [
      "a last row that is cut",
      "type,externalId,email,name\nuser,1,a@example.co",
      /^line 2: row: has 3 values, but the header has 4 columns$/,
    ],
    ["a column without a name", "type,,externalId\nuser,,1", /^line 1: column 2: has no name$/],
    ["a repeated column", "type,type\nuser,user", /^line 1: type: is there twice$/],
    [
      "another separator",
      "type|externalId\nuser|1",
      /^line 1: type: is required as a column.* commas, semicolons or tabs$/,
    ],
    [
      "an id that a spreadsheet has shortened",
      "type,externalId\nuser,1.23457E+15",
      /^line 2: externalId: is a number that a spreadsheet has shortened: format the column as text$/,
    ],
    ["nothing", "", /^line 1: type: is required as a column/],
    [
      "a cell that its type does not have",
      "type,externalId,email,title\nuser,t1,t1@example.com,Loft",
      /^line 2: title: is not a known property$/,
    ],
  ])("with %s is rejected", async (_, content, expected) => {
    expect((await errorsOf(write("header.csv", content)))[0]).toMatch(expected);
  });

  test.each([
    ["externalID", "externalId"],
    ["Email", "email"],
    ["time_zone", "timezone"],
    ["maxPeople", undefined],
  ])("with the unknown column %s is one error on line 1, which suggests %s", async (column, meant) => {
    const rows = `type,${column}\n${"user,x\n".repeat(3)}`;
    const errors = await errorsOf(write("near.csv", rows));
    expect(errors).toEqual([expect.stringMatching(`^line 1: ${column}: is not a known column: `)]);
    if (meant) expect(errors[0]).toMatch(`: did you mean ${meant}?`);
    else expect(errors[0]).not.toContain("did you mean");
  });

  test("with the column Type is told that type is meant", async () => {
    expect(await errorsOf(write("near.csv", "Type,externalId\nuser,x"))).toEqual([
      "line 1: Type: is not a known column: did you mean type?",
    ]);
  });

  test("has the line in which a row begins, also after CRLF, quoted line breaks and empty rows", async () => {
    for (const end of ["\n", "\r\n", "\r"]) {
      const lines = [
        "type,externalId,email",
        'user,a1,"a',
        '1@example.com"',
        ",,",
        "",
        "user,,a2@example.com",
        "user,a3,a3",
      ];
      expect(await errorsOf(write("lines.csv", lines.join(end)))).toEqual([
        "line 2: email: must be an email address",
        "line 6: externalId: is required",
        "line 7: email: must be an email address",
      ]);
    }
    const mixed = "type,externalId,email\r\nuser,b1,b1@example.com\nuser,b2,b2\r\nuser,b3,b3\n";
    expect(await errorsOf(write("mixed.csv", mixed))).toEqual([
      "line 3: email: must be an email address",
      "line 4: email: must be an email address",
    ]);
  });

  test("that is not UTF-8 is reported with each line", async () => {
    const bytes = Buffer.concat([Buffer.from("type\nuser\n"), Buffer.from([0xe4, 10]), Buffer.from("x\n")]);
    expect(await errorsOf(write("latin.csv", bytes))).toEqual([
      'line 3: row: must be UTF-8, which Excel saves as "CSV UTF-8"',
    ]);
  });

  test("that is missing or has an unknown format is an error", async () => {
    const missing = join(folder, "no.csv");
    expect(await failure("import", missing)).toEqual([1, `Cannot read ${missing}: there is no such file.`]);
    const unknown = "The file is neither .csv nor .ndjson: add --format.";
    expect(await failure("import", "hosts.txt")).toEqual([2, unknown]);
  });
});
