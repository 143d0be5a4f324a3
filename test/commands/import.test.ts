import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Progress } from "../../gateway/commands/progress.js";
import { packageRoot } from "../../prisma/package-root.js";
import { asOperator, makeListing, makeUser } from "../support/factories.js";
import { runCli } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";
import { created, type Importer, makeRows, none, openImporter, toNdjson, unchanged } from "./importer.js";

let importer: Importer;

beforeAll(async () => {
  importer = await openImporter();
});

const findUser = (email: string) => asOperator(importer.services).users.find({ email });

describe("guest-forms import", () => {
  test("creates users, listings and memberships of a CSV file, in any order, and prints what it did", async () => {
    const csv = [
      "type,externalId,email,name,title,address,city,country,zipCode,timezone,district,active,maxPeopleInListing,allowPets,listing,user,role",
      "membership,,,,,,,,,,,,,,c-loft,c-host,OWNER",
      'listing,c-loft,,,"Loft, ""big""",Ufer 20,Berlin,Germany,10999,Europe/Berlin,,false,4,true,,,',
      "",
      "user,c-host,c.host@Example.COM,Ana,,,,,,,,,,,,,",
    ];
    const path = importer.write("one.CSV", `\uFEFF${csv.join("\r\n")}`);
    expect(await importer.importJson(path)).toEqual({
      dryRun: false,
      users: created(1),
      listings: created(1),
      memberships: created(1),
    });
    const user = await findUser("c.host@example.com");
    expect(user).toMatchObject({ email: "c.host@example.com", name: "Ana" });
    const { items } = await asOperator(importer.services).listings.listAll({ userId: user.id });
    expect(items).toMatchObject([
      {
        title: 'Loft, "big"',
        zipCode: "10999",
        district: null,
        active: false,
        maxPeopleInListing: 4,
        maxVehicles: null,
        allowPets: true,
      },
    ]);
    expect(items[0]).not.toHaveProperty("externalId");
  });

  test("imports the example of operating.md, with all required fields of each type", async () => {
    const page = readFileSync(join(packageRoot(), "gateway/docs/operating.md"), "utf8");
    const [, example = ""] = /```csv\n(.+?)```/s.exec(page) ?? [];
    const path = importer.write("hosts.csv", example.replace(/^ +/gm, ""));
    const counts = { users: created(1), listings: created(1), memberships: created(1) };
    expect(await importer.importJson(path, "--dry-run")).toEqual({ dryRun: true, ...counts });
    expect(await importer.importJson(path)).toEqual({ dryRun: false, ...counts });
    expect(page).toContain("`guest-forms import hosts.csv --dry-run`");
  });

  test("run again changes nothing, and a corrected file updates the rows that it names", async () => {
    const { ana, ben, loft, owns, reads, id } = makeRows();
    const path = importer.write("again.ndjson", toNdjson(owns, reads, loft, ana, ben));
    const first = { dryRun: false, users: created(2), listings: created(1), memberships: created(2) };
    expect(await importer.importJson(path)).toEqual(first);
    const again = { users: unchanged(2), listings: unchanged(1), memberships: unchanged(2) };
    expect(await importer.importJson(path)).toEqual({ dryRun: false, ...again });
    const corrected = [
      { ...ana, email: `${id}.anna@example.com`, name: null },
      { ...loft, district: "Mitte", maxPeopleInListing: 3, active: false },
      { ...reads, role: "WRITER" },
    ];
    const one = { ...none, updated: 1 };
    const change = { users: one, listings: one, memberships: one };
    const correctedPath = importer.write("corrected.ndjson", toNdjson(...corrected));
    expect(await importer.importJson(correctedPath, "--dry-run")).toEqual({ dryRun: true, ...change });
    expect(await importer.importJson(correctedPath)).toEqual({ dryRun: false, ...change });
    const user = await findUser(`${id}.anna@example.com`);
    expect(user.name).toBeNull();
    const { items } = await asOperator(importer.services).listings.listAll({ userId: user.id });
    expect(items).toMatchObject([
      { title: "Loft", city: "Berlin", district: "Mitte", maxPeopleInListing: 3, active: false },
    ]);
    const members = await asOperator(importer.services).members.list({ listingId: items[0]?.id ?? "" });
    expect(members.items.map(({ role }) => role).sort()).toEqual(["OWNER", "WRITER"]);
  });

  test("--dry-run counts what an import would do and writes nothing", async () => {
    const { ana, loft, owns } = makeRows();
    const path = importer.write("dry.ndjson", toNdjson(ana, loft, owns));
    const counts = { users: created(1), listings: created(1), memberships: created(1) };
    expect(await importer.importJson(path, "--dry-run")).toEqual({ dryRun: true, ...counts });
    const { stdout } = await runInProcess(["import", path, "--dry-run"], importer.env);
    expect(stdout).toMatch(/^TYPE +CREATED +UPDATED +UNCHANGED\nusers +1 +0 +0\n/);
    expect(stdout).toContain("nothing was written");
    expect(await importer.importJson(path)).toEqual({ dryRun: false, ...counts });
  });

  test("a user without external id is found by email address, and gets the row's external id", async () => {
    const { ana, loft, owns } = makeRows();
    const { id } = await makeUser(importer.services, { email: ana.email.toUpperCase() });
    const updated = { ...none, updated: 1 };
    expect(
      (await importer.importJson(importer.write("adopt.ndjson", toNdjson(ana, loft, owns)))).users,
    ).toEqual(updated);
    expect(await findUser(ana.email)).toMatchObject({ id, name: "Ana", email: ana.email });
    const renamed = { ...ana, email: `new.${ana.email}` };
    expect((await importer.importJson(importer.write("adopt.ndjson", toNdjson(renamed)))).users).toEqual(
      updated,
    );
    expect(await findUser(renamed.email)).toMatchObject({ id });
  });

  test("rows refer to users and listings of the database by id", async () => {
    const { ben } = makeRows();
    const host = await makeUser(importer.services);
    const { id: listingId } = await makeListing(importer.services, host.id);
    const rows = [
      ben,
      { type: "membership", listing: listingId.toUpperCase(), user: ben.externalId, role: "WRITER" },
    ];
    expect((await importer.importJson(importer.write("ids.ndjson", toNdjson(...rows)))).memberships).toEqual(
      created(1),
    );
    const owner = { type: "membership", listing: listingId, user: host.id, role: "OWNER" };
    expect((await importer.importJson(importer.write("ids.ndjson", toNdjson(owner)))).memberships).toEqual(
      unchanged(1),
    );
  });

  test("every row that is created or updated has an audit entry, and unchanged ones have none", async () => {
    const { ana, loft, owns } = makeRows();
    const path = importer.write("audit.ndjson", toNdjson(ana, loft, owns));
    await importer.importJson(path);
    await importer.importJson(path);
    await importer.importJson(
      importer.write("audit.ndjson", toNdjson({ ...ana, name: "Anna" }, { ...loft, active: false })),
    );
    const { id: userId } = await findUser(ana.email);
    const { items } = await asOperator(importer.services).listings.listAll({ userId });
    const listingId = items[0]?.id ?? "";
    const trail = async (subjectId: string) =>
      (await asOperator(importer.services).audit.trail({ subjectId })).map(({ actor, action, details }) => [
        actor,
        action,
        details,
      ]);
    expect(await trail(userId)).toEqual([
      ["operator", "user.updated", { fields: ["name"] }],
      ["operator", "user.created", {}],
    ]);
    expect(await trail(listingId)).toEqual([
      ["operator", "listing.updated", { fields: ["active"], active: false }],
      ["operator", "member.set", { userId, role: "OWNER" }],
      ["operator", "listing.created", {}],
    ]);
  });
});

describe("the progress of an import", () => {
  /** Returns what `Progress` writes. */
  function draw(isTTY: boolean): string {
    const drawn: string[] = [];
    const progress = new Progress(400, { isTTY, write: (text: string) => drawn.push(text) > 0 });
    progress.add(200);
    progress.add(200);
    progress.end();
    return drawn.join("");
  }

  test("is a bar that is redrawn in place and removed at the end", () => {
    const half = `[${"#".repeat(15)}${".".repeat(15)}] 200 of 400 rows`;
    const full = `[${"#".repeat(30)}] 400 of 400 rows`;
    expect(draw(true)).toBe(`\r${half}\r${full}\r${" ".repeat(full.length)}\r`);
  });

  test("is not printed if standard error is not a terminal", async () => {
    expect(draw(false)).toBe("");
    const { stderr } = await runCli(["import", importer.write("quiet.ndjson", toNdjson(makeRows().ana))], {
      env: importer.env,
    });
    expect(stderr).toBe("");
  });
});
