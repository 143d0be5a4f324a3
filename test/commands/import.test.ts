import { randomUUID } from "node:crypto";
import { readFileSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { asOperator, makeListing, makeUser } from "../support/factories.js";
import { operatingBlock } from "../support/operating-page.js";
import { commandsWith } from "../support/run-in-process.js";
import { created, makeRows, none, openImporter, toNdjson, unchanged } from "./importer.js";

const { env, folder, services, write, importJson, importRows } = await openImporter();
const { users, listings, members, audit } = asOperator(services);
const findUser = (email: string) => users.find({ user: email });
const listingsOf = async (userId: string) => (await listings.listAll({ userId })).items;

describe("guest-forms import", () => {
  test("creates users, listings and memberships of a CSV file, in any order, and prints what it did", async () => {
    const csv = [
      "type,externalId,email,name,title,address,city,country,zipCode,timezone,district,active,maxPeopleInListing,allowPets,listing,user,role",
      "membership,,,,,,,,,,,,,,c-loft,c-host,OWNER",
      'listing,c-loft,,,"Loft, ""big""",Ufer 20,Berlin,Germany,10999,Europe/Berlin,,false,4,true,,,',
      "",
      "user,c-host,c.host@Example.COM,Ana,,,,,,,,,,,,,",
    ];
    const one = { users: created(1), listings: created(1), memberships: created(1) };
    const path = write("one.CSV", `\uFEFF${csv.join("\r\n")}`);
    expect(await importJson(path)).toEqual({ dryRun: false, ...one });
    const user = await findUser("c.host@example.com");
    expect(user).toMatchObject({ email: "c.host@example.com", name: "Ana" });
    const [listing] = await listingsOf(user.id);
    expect(listing).toMatchObject({
      title: 'Loft, "big"',
      zipCode: "10999",
      district: null,
      active: false,
      maxPeopleInListing: 4,
      maxVehicles: null,
      allowPets: true,
    });
    expect(listing).toHaveProperty("externalId", "c-loft");
  });

  test.each([
    ["Excel, with cells beyond the columns and without the last empty ones", ",", "\r\n"],
    ["Excel or LibreOffice where values are separated by semicolons", ";", "\r\n"],
    ["Google Sheets, as text separated by tabs", "\t", "\n"],
  ])("reads a file of %s", async (_, separator, end) => {
    const { id } = makeRows();
    const rows = [
      "type|externalId|email|title|address|city|country|zipCode|timezone|active|maxPeopleInListing|maxVehicles|allowPets|listing|user|role||",
      ` user | ${id}-host |${id}.host@example.com`,
      `listing|${id}-loft||Loft|Ufer 20|Berlin|Germany|01067|Europe/Berlin|FALSE|4|2.0|True|||||`,
      "|||||||||||||||||",
      `membership||||||||||||| ${id}-loft| ${id}-host|owner`,
    ];
    const path = write("sheet.csv", `\uFEFF${rows.join(end).replaceAll("|", separator)}${end}`);
    const one = { users: created(1), listings: created(1), memberships: created(1) };
    expect(await importJson(path)).toEqual({ dryRun: false, ...one });
    expect(await listings.find({ listing: `${id}-loft` })).toMatchObject({
      zipCode: "01067",
      active: false,
      maxPeopleInListing: 4,
      maxVehicles: 2,
      allowPets: true,
    });
  });

  test("with --dry-run counts what an import of operating.md's example would do, and writes nothing", async () => {
    const path = write("hosts.csv", operatingBlock("type,externalId"));
    const counts = { users: created(1), listings: created(1), memberships: created(1) };
    expect(await importJson(path, "--dry-run")).toEqual({ dryRun: true, ...counts });
    const text = await commandsWith(env).text("import", path, "--dry-run");
    expect(text).toMatch(/^TYPE +CREATED +UPDATED +UNCHANGED\nusers +1 +0 +0\n/);
    expect(text).toContain("nothing was written");
    expect(await importJson(path)).toEqual({ dryRun: false, ...counts });
  });

  test("run again changes nothing, and a corrected file updates the rows that it names", async () => {
    const { ana, ben, loft, owns, reads, id } = makeRows();
    const rows = [owns, reads, loft, ana, ben];
    const first = { dryRun: false, users: created(2), listings: created(1), memberships: created(2) };
    expect(await importRows(...rows)).toEqual(first);
    const again = { users: unchanged(2), listings: unchanged(1), memberships: unchanged(2) };
    expect(await importRows(...rows)).toEqual({ dryRun: false, ...again });
    const one = { ...none, updated: 1 };
    const corrected = await importRows(
      { ...ana, email: `${id}.anna@example.com`, name: null },
      { ...loft, district: "Mitte", maxPeopleInListing: 3, active: false },
      { ...reads, role: "writer" },
    );
    expect(corrected).toEqual({ dryRun: false, users: one, listings: one, memberships: one });
    const user = await findUser(`${id}.anna@example.com`);
    expect(user.name).toBeNull();
    const [listing] = await listingsOf(user.id);
    const changed = { district: "Mitte", maxPeopleInListing: 3, active: false };
    expect(listing).toMatchObject({ title: "Loft", city: "Berlin", ...changed });
    const { items } = await members.list({ listingId: listing?.id ?? "" });
    expect(items.map(({ role }) => role).sort()).toEqual(["OWNER", "WRITER"]);
  });

  test("a language is imported in canonical form, kept by a row without it or that ends before it, and removed by null or an empty cell", async () => {
    const { loft, id } = makeRows();
    const languageAfter = async (path: string, outcome: object) => {
      expect((await importJson(path)).listings).toEqual({ ...none, ...outcome });
      return (await listings.find({ listing: loft.externalId })).language;
    };
    const ofRow = (row: object, outcome: object) => languageAfter(write(`${id}.ndjson`, [row]), outcome);
    const ofCsv = (columns: string, values: string, outcome: object) =>
      languageAfter(write(`${id}.csv`, `${Object.keys(loft)}${columns}\n${Object.values(loft)}${values}\n`), outcome);
    expect(await ofRow({ ...loft, language: "PT-br" }, { created: 1 })).toBe("pt-BR");
    expect(await ofRow({ ...loft, language: "pt-BR" }, { unchanged: 1 })).toBe("pt-BR");
    expect(await ofRow(loft, { unchanged: 1 })).toBe("pt-BR");
    expect(await ofCsv("", "", { unchanged: 1 })).toBe("pt-BR");
    expect(await ofRow({ ...loft, language: null }, { updated: 1 })).toBeNull();
    expect(await ofCsv(",language", ",DE", { updated: 1 })).toBe("de");
    expect(await ofCsv(",language", "", { unchanged: 1 })).toBe("de");
    expect(await ofCsv(",language", ",", { updated: 1 })).toBeNull();
  });

  test("a user without external id is found by email address, and gets the row's external id", async () => {
    const { ana } = makeRows();
    const { id } = await makeUser(services, { email: ana.email.toUpperCase() });
    expect((await importRows(ana)).users).toEqual({ ...none, updated: 1 });
    expect(await findUser(ana.email)).toMatchObject({ id, name: "Ana", email: ana.email });
    const renamed = { ...ana, email: `new.${ana.email}` };
    expect((await importRows(renamed)).users).toEqual({ ...none, updated: 1 });
    expect(await findUser(renamed.email)).toMatchObject({ id });
  });

  test("a listing or user without external id that has the row's id gets the row's external id, and is not created again", async () => {
    const { ana, ben, loft } = makeRows();
    const { id: userId } = await makeUser(services);
    const { id } = await makeListing(services, userId);
    const rows = [
      { ...loft, id: id.toUpperCase() },
      { ...ana, id: userId },
    ];
    const one = { ...none, updated: 1 };
    expect(await importRows(...rows)).toMatchObject({ users: one, listings: one });
    expect(await importRows(...rows)).toMatchObject({ users: unchanged(1), listings: unchanged(1) });
    expect(await listings.find({ listing: loft.externalId })).toMatchObject({ id });
    expect(await findUser(ana.externalId)).toMatchObject({ id: userId, email: ana.email });
    // The id of another database.
    expect((await importRows({ ...ben, id: randomUUID() })).users).toEqual(created(1));
  });

  test("an erased user is not brought back: a row with the id is a new user", async () => {
    const { ana } = makeRows();
    const { id } = await makeUser(services);
    await asOperator(services).people.eraseUser({ id });
    expect((await importRows({ ...ana, id })).users).toEqual(created(1));
    expect((await users.get({ id })).email).toBe(`${id}@erased.invalid`);
  });

  test("rows refer to users and listings of the database by id", async () => {
    const { ben } = makeRows();
    const host = await makeUser(services);
    const { id } = await makeListing(services, host.id);
    const writes = { type: "membership", listing: id.toUpperCase(), user: ben.externalId, role: "WRITER" };
    const owns = { type: "membership", listing: id, user: host.id, role: "OWNER" };
    const { memberships } = await importRows(ben, writes, owns);
    expect(memberships).toEqual({ ...none, created: 1, unchanged: 1 });
  });

  test.each(["csv", "ndjson"])(
    "--output writes the id of each user and listing of the file beside its externalId, as %s, and --json prints them",
    async (format) => {
      const { ana, ben, loft, owns } = makeRows();
      await importRows(ben);
      const output = join(folder, `ids.${format}`);
      const { ids } = await commandsWith(env).json(
        "import",
        write("i.ndjson", [loft, owns, ana, ben]),
        "--output",
        output,
      );
      const expected = [];
      for (const { type, externalId } of [ana, ben, loft])
        expected.push({ type, externalId, id: (await commandsWith(env).json(`${type}s`, "show", externalId)).id });
      expect(ids).toEqual(expected);
      const csv = expected.map(({ type, externalId, id }) => `${type},${externalId},${id}\n`).join("");
      const text = format === "csv" ? `type,externalId,id\n${csv}` : toNdjson(...expected);
      expect(readFileSync(output, "utf8")).toBe(text);
      expect(statSync(output).mode & 0o777).toBe(0o600);
    },
  );

  test("--output is rejected, and nothing imported, if it is the file to import, also by a link", async () => {
    const { ana } = makeRows();
    const file = write("own.ndjson", [ana]);
    const link = join(folder, "link.ndjson");
    symlinkSync(file, link);
    for (const output of [file, link]) {
      const message = `${output} is the file to import. Choose another --output.`;
      expect(await commandsWith(env).failure("import", file, "--output", output)).toEqual([1, message]);
    }
    expect(readFileSync(file, "utf8")).toBe(toNdjson(ana));
    expect(await commandsWith(env).failure("users", "show", ana.externalId)).toEqual([1, expect.any(String)]);
  });

  test("every row that is created or updated has an audit entry, and unchanged ones have none", async () => {
    const { ana, loft, owns } = makeRows();
    await importRows(ana, loft, owns);
    await importRows(ana, loft, owns);
    await importRows({ ...ana, name: "Anna" }, { ...loft, active: false });
    const { id: userId } = await findUser(ana.email);
    const [listing] = await listingsOf(userId);
    const trail = async (subjectId = "") =>
      (await audit.trail({ subjectId })).map(({ actor, action, details }) => [actor, action, details]);
    expect(await trail(userId)).toEqual([
      ["operator", "user.updated", { fields: ["name"] }],
      ["operator", "user.created", {}],
    ]);
    expect(await trail(listing?.id)).toEqual([
      ["operator", "listing.updated", { fields: ["active"], active: false }],
      ["operator", "member.set", { userId, role: "OWNER" }],
      ["operator", "listing.created", {}],
    ]);
  });
});
