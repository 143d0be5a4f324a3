import { mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { Progress } from "../../gateway/commands/progress.js";
import { packageRoot } from "../../prisma/package-root.js";
import type { Services } from "../../server/context.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { asOperator, makeListing, makeUser, openTestServices, TEST_SECRET } from "../support/factories.js";
import { runCli, spawnNode } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";

let env: Record<string, string>;
let services: Services;
const cli = join(packageRoot(), "dist/gateway/cli.js");
const folder = mkdtempSync(join(tmpdir(), "guest-forms-import-"));

beforeAll(async () => {
  afterFile(() => rm(folder, { recursive: true }));
  const { url } = await createTestDatabase();
  env = { DATABASE_URL: url, APP_SECRETS: TEST_SECRET };
  services = await openTestServices(env);
});

/** Writes a file. Returns its path. */
function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const toNdjson = (...rows: unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");

/** Runs `guest-forms import --json`. Returns what it prints. */
async function importJson(path: string, ...args: string[]) {
  const { stdout, code, message } = await runInProcess(["import", path, "--json", ...args], env);
  expect({ code, message }).toEqual({ code: 0, message: "" });
  return JSON.parse(stdout);
}

const none = { created: 0, updated: 0, unchanged: 0 };
const created = (count: number) => ({ ...none, created: count });
const unchanged = (count: number) => ({ ...none, unchanged: count });

let serial = 0;

/** Rows with names that no other test uses. */
function makeRows() {
  const id = `t${++serial}`;
  const place = {
    address: "Ufer 20",
    city: "Berlin",
    country: "Germany",
    zipCode: "10999",
    timezone: "Europe/Berlin",
  };
  return {
    id,
    ana: { type: "user", externalId: `${id}-ana`, email: `${id}.ana@example.com`, name: "Ana" },
    ben: { type: "user", externalId: `${id}-ben`, email: `${id}.ben@example.com` },
    loft: { type: "listing", externalId: `${id}-loft`, title: "Loft", ...place },
    owns: { type: "membership", listing: `${id}-loft`, user: `${id}-ana`, role: "OWNER" },
    reads: { type: "membership", listing: `${id}-loft`, user: `${id}.Ben@example.com`, role: "READER" },
  };
}

const findUser = (email: string) => asOperator(services).users.find({ email });

describe("guest-forms import", () => {
  test("creates users, listings and memberships of a CSV file, in any order, and prints what it did", async () => {
    const csv = [
      "type,externalId,email,name,title,address,city,country,zipCode,timezone,district,active,maxPeopleInListing,allowPets,listing,user,role",
      "membership,,,,,,,,,,,,,,c-loft,c-host,OWNER",
      'listing,c-loft,,,"Loft, ""big""",Ufer 20,Berlin,Germany,10999,Europe/Berlin,,false,4,true,,,',
      "",
      "user,c-host,c.host@Example.COM,Ana,,,,,,,,,,,,,",
    ];
    const path = write("one.CSV", `\uFEFF${csv.join("\r\n")}`);
    expect(await importJson(path)).toEqual({
      dryRun: false,
      users: created(1),
      listings: created(1),
      memberships: created(1),
    });
    const user = await findUser("c.host@example.com");
    expect(user).toMatchObject({ email: "c.host@example.com", name: "Ana" });
    const { items } = await asOperator(services).listings.listAll({ userId: user.id });
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
    const path = write("hosts.csv", example.replace(/^ +/gm, ""));
    const counts = { users: created(1), listings: created(1), memberships: created(1) };
    expect(await importJson(path, "--dry-run")).toEqual({ dryRun: true, ...counts });
    expect(await importJson(path)).toEqual({ dryRun: false, ...counts });
    expect(page).toContain("`guest-forms import hosts.csv --dry-run`");
  });

  test("run again changes nothing, and a corrected file updates the rows that it names", async () => {
    const { ana, ben, loft, owns, reads, id } = makeRows();
    const path = write("again.ndjson", toNdjson(owns, reads, loft, ana, ben));
    const first = { dryRun: false, users: created(2), listings: created(1), memberships: created(2) };
    expect(await importJson(path)).toEqual(first);
    const again = { users: unchanged(2), listings: unchanged(1), memberships: unchanged(2) };
    expect(await importJson(path)).toEqual({ dryRun: false, ...again });
    const corrected = [
      { ...ana, email: `${id}.anna@example.com`, name: null },
      { ...loft, district: "Mitte", maxPeopleInListing: 3, active: false },
      { ...reads, role: "WRITER" },
    ];
    const one = { ...none, updated: 1 };
    const change = { users: one, listings: one, memberships: one };
    const correctedPath = write("corrected.ndjson", toNdjson(...corrected));
    expect(await importJson(correctedPath, "--dry-run")).toEqual({ dryRun: true, ...change });
    expect(await importJson(correctedPath)).toEqual({ dryRun: false, ...change });
    const user = await findUser(`${id}.anna@example.com`);
    expect(user.name).toBeNull();
    const { items } = await asOperator(services).listings.listAll({ userId: user.id });
    expect(items).toMatchObject([
      { title: "Loft", city: "Berlin", district: "Mitte", maxPeopleInListing: 3, active: false },
    ]);
    const members = await asOperator(services).members.list({ listingId: items[0]?.id ?? "" });
    expect(members.items.map(({ role }) => role).sort()).toEqual(["OWNER", "WRITER"]);
  });

  test("--dry-run counts what an import would do and writes nothing", async () => {
    const { ana, loft, owns } = makeRows();
    const path = write("dry.ndjson", toNdjson(ana, loft, owns));
    const counts = { users: created(1), listings: created(1), memberships: created(1) };
    expect(await importJson(path, "--dry-run")).toEqual({ dryRun: true, ...counts });
    const { stdout } = await runInProcess(["import", path, "--dry-run"], env);
    expect(stdout).toMatch(/^TYPE +CREATED +UPDATED +UNCHANGED\nusers +1 +0 +0\n/);
    expect(stdout).toContain("nothing was written");
    expect(await importJson(path)).toEqual({ dryRun: false, ...counts });
  });

  test("a user without external id is found by email address, and gets the row's external id", async () => {
    const { ana, loft, owns } = makeRows();
    const { id } = await makeUser(services, { email: ana.email.toUpperCase() });
    const updated = { ...none, updated: 1 };
    expect((await importJson(write("adopt.ndjson", toNdjson(ana, loft, owns)))).users).toEqual(updated);
    expect(await findUser(ana.email)).toMatchObject({ id, name: "Ana", email: ana.email });
    const renamed = { ...ana, email: `new.${ana.email}` };
    expect((await importJson(write("adopt.ndjson", toNdjson(renamed)))).users).toEqual(updated);
    expect(await findUser(renamed.email)).toMatchObject({ id });
  });

  test("rows refer to users and listings of the database by id", async () => {
    const { ben } = makeRows();
    const host = await makeUser(services);
    const { id: listingId } = await makeListing(services, host.id);
    const rows = [
      ben,
      { type: "membership", listing: listingId.toUpperCase(), user: ben.externalId, role: "WRITER" },
    ];
    expect((await importJson(write("ids.ndjson", toNdjson(...rows)))).memberships).toEqual(created(1));
    const owner = { type: "membership", listing: listingId, user: host.id, role: "OWNER" };
    expect((await importJson(write("ids.ndjson", toNdjson(owner)))).memberships).toEqual(unchanged(1));
  });

  test("every row that is created or updated has an audit entry, and unchanged ones have none", async () => {
    const { ana, loft, owns } = makeRows();
    const path = write("audit.ndjson", toNdjson(ana, loft, owns));
    await importJson(path);
    await importJson(path);
    await importJson(write("audit.ndjson", toNdjson({ ...ana, name: "Anna" }, { ...loft, active: false })));
    const { id: userId } = await findUser(ana.email);
    const { items } = await asOperator(services).listings.listAll({ userId });
    const listingId = items[0]?.id ?? "";
    const trail = async (subjectId: string) =>
      (await asOperator(services).audit.trail({ subjectId })).map(({ actor, action, details }) => [
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

describe("an invalid file", () => {
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

  const countRows = async () =>
    (
      await services.db.pool.query(
        "SELECT (SELECT count(*) FROM users) u, (SELECT count(*) FROM listings) l, (SELECT count(*) FROM memberships) m",
      )
    ).rows;

  test("writes nothing and reports every error of every line with its field", async () => {
    const { ana, ben, loft, owns, id } = makeRows();
    const { title: _, ...untitled } = loft;
    const taken = await makeUser(services);
    const other = { ...makeRows().ana, externalId: `${id}-other` };
    await importJson(write("other.ndjson", toNdjson(other)));
    const errors = await errorsOf(
      write(
        "bad.ndjson",
        toNdjson(
          { ...ana, email: "ana@", nickname: "Ana" },
          { ...untitled, timezone: "Berlin", maxPeopleInListing: "4", active: "yes" },
          owns,
        ).concat(
          "[1]\n\n{\n",
          toNdjson(
            { ...ben, type: "guest" },
            { externalId: "x" },
            ben,
            { ...ben, email: `x.${ben.email}` },
            { ...ben, externalId: "y", email: ben.email.toUpperCase() },
            { ...owns, user: ben.externalId },
            { ...owns, user: ben.email, role: "READER" },
            { ...owns, user: `${id}-nobody`, listing: "no" },
            { ...owns, role: "owner" },
            { type: "user", externalId: `${id}-z`, email: other.email },
            { type: "user", externalId: taken.id, email: other.email },
          ),
        ),
      ),
    );
    expect(errors.map((line) => line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, "ID"))).toEqual([
      "line 1: email: must be an email address",
      "line 1: nickname: is not a known property",
      "line 2: title: is required",
      "line 2: timezone: must be an IANA time zone, such as Europe/Berlin",
      "line 2: active: must be true or false",
      "line 2: maxPeopleInListing: must be an integer",
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
    const path = write("bad.ndjson", toNdjson({ type: "user", externalId: "", email: "a@example.com" }));
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
    [
      "an unknown column",
      "type,externalID\nuser,1",
      /^line 1: externalID: is not a known column: use type, externalId, /,
    ],
    ["a repeated column", "type,type\nuser,user", /^line 1: type: is there twice$/],
    ["another separator", "type;externalId\nuser;1", /^line 1: type: is required as a column/],
    ["nothing", "", /^line 1: type: is required as a column/],
  ])("with %s in its header is rejected", async (_, content, expected) => {
    expect((await errorsOf(write("header.csv", content)))[0]).toMatch(expected);
  });

  test("with a cell that its type does not have is rejected", async () => {
    const path = write("cell.csv", "type,externalId,email,title\nuser,t1,t1@example.com,Loft");
    expect(await errorsOf(path)).toEqual(["line 2: title: is not a known property"]);
  });

  test("that is not UTF-8 is reported with each line", async () => {
    const bytes = Buffer.concat([Buffer.from("type\nuser\n"), Buffer.from([0xe4, 10]), Buffer.from("x\n")]);
    expect(await errorsOf(write("latin.csv", bytes))).toEqual(["line 3: row: must be UTF-8"]);
  });

  test("a missing file and an unknown format are errors", async () => {
    const missing = join(folder, "no.csv");
    expect(await runInProcess(["import", missing], env)).toMatchObject({
      code: 1,
      message: `Cannot read ${missing}: there is no such file.`,
    });
    expect(await runInProcess(["import", "hosts.txt"], env)).toMatchObject({
      code: 2,
      message: "The file is neither .csv nor .ndjson: add --format.",
    });
  });
});

describe("guest-forms export", () => {
  test("writes to standard output, from which an import reads with -", async () => {
    const { ana } = makeRows();
    await importJson(write("in.ndjson", toNdjson(ana)));
    const script = '"$0" "$1" export | head -1; "$0" "$1" export | "$0" "$1" import - --format csv --json';
    const { stdout, stderr } = await spawnNode([cli], { env, commandPrefix: ["sh", "-c", script] }).done;
    expect(stderr).toBe("");
    const [header, summary = ""] = stdout.split("\n");
    expect(header).toMatch(/^type,externalId,email,name,title,/);
    expect(JSON.parse(summary)).toMatchObject({ users: { created: 0, updated: 0 } });
    const { code, message } = await runInProcess(["export", "--json"], env);
    expect([code, message]).toEqual([2, "--json requires --output."]);
  });

  test.each(["csv", "ndjson"])(
    "writes a %s file that an import into the same database leaves unchanged, and another database becomes equal to",
    async (format) => {
      const { ana, ben, loft, owns, reads, id } = makeRows();
      const odd = { ...loft, externalId: `=${id}`, title: '=1+1 "ü", x', district: "-a", allowPets: false };
      await importJson(write("in.ndjson", toNdjson(ana, ben, loft, odd, owns, reads)));
      await makeListing(services, (await makeUser(services)).id);
      const output = join(folder, `out.${format}`);
      const { stdout } = await runInProcess(["export", "--output", output, "--json"], env);
      const { users, listings, memberships } = JSON.parse(stdout);
      expect(await importJson(output)).toEqual({
        dryRun: false,
        users: unchanged(users),
        listings: unchanged(listings),
        memberships: unchanged(memberships),
      });

      const { url } = await createTestDatabase();
      const other = { ...env, DATABASE_URL: url };
      expect((await runInProcess(["import", output], other)).code).toBe(0);
      const copy = join(folder, `copy.${format}`);
      expect((await runInProcess(["export", "--output", copy], other)).code).toBe(0);
      const sorted = (path: string) => readFileSync(path, "utf8").split("\n").sort();
      expect(sorted(copy)).toEqual(sorted(output));
      expect(statSync(output).mode & 0o777).toBe(0o600);
    },
  );
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
    const { stderr } = await runCli(["import", write("quiet.ndjson", toNdjson(makeRows().ana))], { env });
    expect(stderr).toBe("");
  });
});
