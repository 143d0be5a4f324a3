import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import { createTestDatabase } from "../support/database.js";
import { asOperator, makeForm, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { freePort } from "../support/network.js";
import { UUID } from "../support/public-fields.js";
import { runInProcess } from "../support/run-in-process.js";
import { makeTempFolder } from "../support/run-tool.js";

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let services: Services;
let operator: Caller;
beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
  operator = asOperator(services);
});
afterEach(() => void vi.restoreAllMocks());

const run = (args: string[], env: Record<string, string> = {}) =>
  runInProcess(args, { DATABASE_URL: services.db.url, ...env });

/** Runs a command that must succeed and print text. */
async function runText(...args: string[]): Promise<string> {
  const { stdout, code, message } = await run(args);
  expect({ code, message }).toEqual({ code: 0, message: "" });
  return stdout;
}

/** Runs a command with --json that must succeed and print exactly one line. */
async function runJson(...args: string[]) {
  const stdout = await runText(...args, "--json");
  expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  return JSON.parse(stdout);
}

/** Runs a command that must fail: with one line for people, and nothing on standard output. */
async function expectFailure(
  args: string[],
  code: number,
  message: RegExp,
  env: Record<string, string> = {},
) {
  const failed = await run(args, env);
  expect(failed).toEqual({ stdout: "", code, message: expect.stringMatching(message) });
  expect(failed.message).not.toMatch(/\n|\bat .*:\d+:\d+|node:internal/);
  return failed.message;
}

const newUser = async () => (await makeUser(services)).id;

describe("users create", () => {
  it("prints the user, and rejects an address that is already used", async () => {
    const user = await runJson("users", "create", "--email", "Ada@Example.COM", "--name", "Ada");
    expect(user).toMatchObject({ id: expect.stringMatching(UUID), email: "Ada@example.com", name: "Ada" });
    expect(await runText("users", "create", "--email", "b@example.com")).toMatch(/^id: +[0-9a-f-]{36}\n/);
    const again = ["users", "create", "--email", "ada@example.com"];
    await expectFailure(
      again,
      2,
      new RegExp(`--email: a user with this address already exists: ${user.id}$`),
    );
  });
});

describe("listings create", () => {
  const place = ["--title", "Loft", "--address", "Kanalweg 7", "--city", "Berlin", "--country", "Germany"];
  const required = [...place, "--zip-code", "10997", "--timezone", "Europe/Berlin"];

  it("prints the listing with every field", async () => {
    const create = ["listings", "create", "--owner", await newUser(), ...required];
    const limits = ["--max-people", "4", "--max-vehicles", "0", "--allow-pets", "false"];
    const listing = await runJson(...create, "--district", "Kreuzberg", ...limits, "--inactive");
    expect(listing).toEqual({
      id: expect.stringMatching(UUID),
      publicId: expect.stringMatching(/^[\w-]{21}$/),
      title: "Loft",
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      district: "Kreuzberg",
      timezone: "Europe/Berlin",
      active: false,
      maxPeopleInListing: 4,
      maxVehicles: 0,
      allowPets: false,
      createdAt: expect.stringMatching(INSTANT),
    });
    const unset = { active: true, district: null, maxPeopleInListing: null, allowPets: null };
    expect(await runJson(...create)).toMatchObject(unset);
    expect(await runText(...create)).toMatch(/\ntitle: +Loft\n/);
  });

  it("reports every rejected field by its option", async () => {
    const create = ["listings", "create", "--owner", await newUser(), ...required];
    const faults = ["--timezone", "Mars/Base", "--max-people", "0"];
    await expectFailure(
      [...create, ...faults],
      2,
      /--timezone: must be an IANA.*; --max-people: must be at least 1/,
    );
  });
});

describe("members set and members remove", () => {
  it("print the membership, with the role as it is typed", async () => {
    const [owner, userId] = [await newUser(), await newUser()];
    const { id: listingId } = await makeListing(services, owner);
    const of = ["--listing", listingId, "--user", userId];
    const membership = { listingId, userId, role: "writer" };
    expect(await runJson("members", "set", ...of, "--role", "writer")).toEqual(membership);
    expect(await runText("members", "set", ...of, "--role", "reader")).toMatch(/role: +reader\n/);
    expect(await runJson("members", "remove", ...of)).toEqual({ ...membership, role: "reader" });
    await expectFailure(["members", "remove", ...of], 1, /This user has no role on this listing/);
    await expectFailure(["members", "set", ...of, "--role", "OWNER"], 2, /Allowed choices are owner, writer/);
  });
});

describe("keys", () => {
  it("issue prints the key, and list never does", async () => {
    const user = await newUser();
    const issue = ["keys", "issue", "--user", user, "--mode"];
    const issued = await runJson(...issue, "read-write");
    expect(issued).toEqual({
      id: expect.stringMatching(UUID),
      key: expect.stringMatching(/^grf_rw_[0-9A-Za-z]{49}$/),
      prefix: issued.key.slice(0, 12),
      mode: "read-write",
      expiresAt: null,
    });
    const optional = ["--label", "channel manager", "--expires-at", "2099-01-01T01:00:00+01:00"];
    expect(await runText(...issue, "read-only", ...optional)).toMatch(
      /key: +grf_ro_\w{49}\n[\s\S]*expiresAt: +2099-01-01T00:00:00.000Z\n[\s\S]*not shown again/,
    );
    const keys = await runJson("keys", "list", "--user", user);
    expect(keys.items).toMatchObject([
      { id: issued.id, userId: user, mode: "read-write", label: null, revokedAt: null, lastUsedAt: null },
      { mode: "read-only", label: "channel manager", expiresAt: "2099-01-01T00:00:00.000Z" },
    ]);
    const table = await runText("keys", "list");
    expect(table).toMatch(/^ID +USER ID +PREFIX +MODE/);
    expect(table + JSON.stringify(keys)).not.toContain(issued.key);
    await expectFailure(
      [...issue, "read-only", "--expires-at", "tomorrow"],
      2,
      /--expires-at: must be an ISO 8601 instant/,
    );
  });

  it("list without keys prints a sentence, and an empty page with --json", async () => {
    const user = await newUser();
    expect(await runJson("keys", "list", "--user", user)).toEqual({ items: [], nextCursor: null });
    expect(await runText("keys", "list", "--user", user)).toBe("There are no keys.\n");
  });

  it("rotate prints the new key and when the old one expires", async () => {
    const old = await operator.keys.issue({ userId: await newUser(), mode: "READ_ONLY" });
    const fresh = await runJson("keys", "rotate", old.id, "--grace", "2h");
    expect(fresh).toEqual({
      id: expect.stringMatching(UUID),
      key: expect.stringMatching(/^grf_ro_/),
      prefix: fresh.key.slice(0, 12),
      mode: "read-only",
      expiresAt: null,
      replaces: { id: old.id, expiresAt: expect.stringMatching(INSTANT) },
    });
    const hours = (Date.parse(fresh.replaces.expiresAt) - Date.now()) / 3_600_000;
    expect(hours).toBeGreaterThan(1.9);
    expect(hours).toBeLessThanOrEqual(2);
    expect(await runText("keys", "rotate", fresh.id)).toMatch(/replaces\.expiresAt: +\d{4}-/);
  });

  it("rotate rejects an unknown key and an invalid grace period", async () => {
    const rotate = ["keys", "rotate", UNKNOWN_ID];
    await expectFailure(rotate, 1, /There is no key with this id/);
    await expectFailure([...rotate, "--grace", "2 weeks"], 2, /--grace.*s, m, h or d/);
    await expectFailure([...rotate, "--grace", "366d"], 2, /--grace: must be at most a year/);
  });

  it("revoke prints when the key was revoked, also if it is repeated", async () => {
    const { id } = await operator.keys.issue({ userId: await newUser(), mode: "READ_ONLY" });
    const revoked = await runJson("keys", "revoke", id);
    expect(revoked).toMatchObject({ id, mode: "read-only", revokedAt: expect.stringMatching(INSTANT) });
    expect(await runText("keys", "revoke", id)).toContain(revoked.revokedAt);
    await expectFailure(["keys", "revoke", "nonsense"], 1, /There is no key with this id/);
  });
});

describe("forms set-status", () => {
  it("prints the form, rejects an unknown status, and sets it with --force", async () => {
    const userId = await newUser();
    const { id } = await makeForm(services, userId, (await makeListing(services, userId)).id);
    const set = ["forms", "set-status", id];
    expect(await runJson(...set, "ACCEPTED")).toMatchObject({ id, status: "ACCEPTED" });
    await expectFailure([...set, "ACEPTED"], 2, /STATUS: must be one of SENT, .*ACCEPTED/);
    await expectFailure([...set, "accepted"], 2, /STATUS: must be 1 to 32 of/);
    expect(await runText(...set, "ON_HOLD", "--force")).toMatch(/status: +UNKNOWN\n/);
    await expectFailure(["forms", "set-status", UNKNOWN_ID, "ACCEPTED"], 1, /no form with this id/);
  });
});

describe("a usage error has one line and the exit code 2", () => {
  it.each([
    ["keyz", /^unknown command 'keyz' \(Did you mean keys\?\)$/],
    ["nope", /^unknown command 'nope': see guest-forms --help$/],
    ["users lst", /^unknown command 'lst' \(Did you mean list\?\)$/],
    ["users nope", /^unknown command 'nope': see guest-forms users --help$/],
    ["keys list --usr x", /^unknown option '--usr' \(Did you mean --user\?\)$/],
    ["keys list extra", /too many arguments/],
    ["keys revoke", /missing required argument 'id'/],
    ["users create", /required option '--email <address>' not specified/],
    ["users create --email", /argument missing/],
    ["users create --email nobody", /--email: must be an email address/],
    ["serve --port 99999", /--port.*0 to 65535/],
  ] as const)("guest-forms %s", (line, message) => expectFailure(line.split(" "), 2, message).then(() => {}));
});

describe("settings and databases", () => {
  it.each(["keys list", "migrate", "serve", "worker"])(
    "%s reports that DATABASE_URL is not set",
    async (line) => {
      vi.spyOn(process, "cwd").mockReturnValue(await makeTempFolder("commands"));
      await expectFailure(line.split(" "), 1, /DATABASE_URL is not set: set it to/, { DATABASE_URL: "" });
    },
  );

  it("an unreachable database is reported with its host and port, and without the password", async () => {
    const port = await freePort();
    const DATABASE_URL = `postgres://someone:s3cr%2Ft@127.0.0.1:${port}/forms`;
    for (const line of ["keys list", "migrate"]) {
      const message = await expectFailure(line.split(" "), 1, new RegExp(`127\\.0\\.0\\.1:${port}`), {
        DATABASE_URL,
      });
      expect(message).not.toContain("s3cr");
    }
  });

  it("a database that does not exist and one that was never migrated are reported as such", async () => {
    const missing = new URL(services.db.url);
    missing.pathname = "no_such_database";
    const list = ["keys", "list"];
    await expectFailure(list, 1, /no database no_such_database/, { DATABASE_URL: missing.href });
    const { url: DATABASE_URL } = await createTestDatabase({ empty: true });
    await expectFailure(list, 1, /run `guest-forms migrate` first/, { DATABASE_URL });
  });

  it("an invalid setting is reported with its value and what is allowed, and a secret without its value", async () => {
    await expectFailure(["keys", "list"], 1, /PORT is "abc", but must be an integer from/, { PORT: "abc" });
    const tooShort = { APP_SECRETS: "hunter2" };
    const message = await expectFailure(
      ["serve"],
      1,
      /APP_SECRETS is a value of 7 characters, but must be/,
      tooShort,
    );
    expect(message).not.toContain("hunter2");
  });

  it("without DATABASE_URL, commands use the database of a running `dev`, but never in production", async () => {
    const home = await makeTempFolder("commands");
    await mkdir(join(home, ".data"));
    await writeFile(join(home, ".data", "database-url"), `${services.db.url}\n`, { mode: 0o600 });
    vi.spyOn(process, "cwd").mockReturnValue(home);
    const near = { DATABASE_URL: "" };
    await expectFailure(["listings", "show", UNKNOWN_ID], 1, /There is no listing with this id/, near);
    const production = { ...near, NODE_ENV: "production" };
    await expectFailure(["keys", "list"], 1, /DATABASE_URL is not set/, production);
  });
});
