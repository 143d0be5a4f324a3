import { describe, expect, test } from "vitest";
import { makeRows, openImporter, toNdjson } from "./importer.js";

const { write, errorsOf } = await openImporter();

describe("an import reports an invalid row once, and no membership that refers to it:", () => {
  const { ana, ben, loft, owns, reads, id } = makeRows();
  const cora = { ...ben, externalId: `${id}-cora`, email: `${id}.cora@example.com` };
  const { email: _, ...unaddressed } = ben;
  const { externalId: __, ...unnamed } = ben;
  const { type: ___, ...untyped } = ben;
  const ofCora = { ...owns, user: cora.externalId };
  const roleOf = (user: string, role = "OWNER") => ({ ...owns, user, role });

  test.each<[string, object[], object[], string[]]>([
    [
      "an address that is none, however it is named",
      [{ ...ben, email: "ben@" }],
      [roleOf(ben.externalId), roleOf("ben@"), roleOf(ben.email)],
      ["line 1: email: must be an email address"],
    ],
    [
      "several fields",
      [{ ...ben, email: "ben@", name: 1, nickname: "B" }],
      [roleOf(ben.externalId)],
      [
        "line 1: email: must be an email address",
        "line 1: name: must be a string",
        "line 1: nickname: is not a known property",
      ],
    ],
    ["no address", [unaddressed], [reads], ["line 1: email: is required"]],
    ["no external id", [unnamed], [reads, roleOf(ben.externalId)], ["line 1: externalId: is required"]],
    [
      "an external id that is a number",
      [{ ...ben, externalId: 7 }],
      [roleOf("7")],
      ["line 1: externalId: must be a string"],
    ],
    [
      "an external id that is too long, also in memberships",
      [{ ...ben, externalId: "x".repeat(201) }],
      [roleOf("x".repeat(201)), { ...owns, listing: "x".repeat(201) }],
      ["line 1: externalId: must be at most 200 characters", "line 5: listing: must be at most 200 characters"],
    ],
    [
      "another type",
      [{ ...ben, type: "guest" }],
      [roleOf(ben.externalId)],
      ["line 1: type: must be one of user, listing and membership"],
    ],
    ["no type", [untyped], [roleOf(ben.externalId)], ["line 1: type: must be one of user, listing and membership"]],
    [
      "an external id of another row",
      [cora, { ...ben, externalId: cora.externalId }],
      [ofCora, { ...reads, role: "OWNER" }, roleOf(ben.externalId)],
      ["line 2: externalId: is already on line 1"],
    ],
    [
      "an address of another row",
      [cora, { ...ben, email: cora.email }],
      [ofCora, roleOf(cora.email), roleOf(ben.email)],
      ["line 2: email: is already on line 1"],
    ],
    [
      "a listing without a title, with another error in its membership",
      [{ ...loft, externalId: `${id}-attic`, title: "" }],
      [{ ...owns, listing: `${id}-attic`, role: "host" }],
      ["line 1: title: must not be empty", "line 4: role: must be one of OWNER, WRITER and READER"],
    ],
  ])("%s", async (_, rows, memberships, expected) => {
    expect(await errorsOf(write("invalid.ndjson", [...rows, ana, loft, ...memberships]))).toEqual(expected);
  });

  test("a row that cannot be read", async () => {
    const valid = toNdjson(ana, loft, roleOf(ben.externalId), reads);
    expect(await errorsOf(write("unreadable.ndjson", `${valid}{"type":"user"\n`))).toEqual([
      "line 5: row: must be one JSON object",
    ]);
    const csv = ["type,externalId,email,user,listing,role", "membership,,,u,l,OWNER", `user,u,"u@example.com`];
    expect(await errorsOf(write("unreadable.csv", csv.join("\n")))).toEqual([
      "line 3: row: opens a quote that is never closed. The rest of the file was not checked",
    ]);
  });
});
