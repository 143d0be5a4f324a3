import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { findUserBy } from "../../gateway/commands/find-user.js";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import type { User } from "../../server/people/schema.js";
import { createTestDatabase } from "../support/database.js";
import {
  asOperator,
  asUser,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
  TEST_SECRET,
} from "../support/factories.js";
import { runInProcess } from "../support/run-in-process.js";
import { fixedStay } from "../support/stays.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let env: Record<string, string>;
let services: Services;
let ana: User;
let ben: User;
let loft: Listing;
let hut: Listing;
/** Two on the loft and one on the hut, in order of creation. */
let forms: FormV1[];

beforeAll(async () => {
  const { url } = await createTestDatabase();
  env = { DATABASE_URL: url, APP_SECRETS: TEST_SECRET };
  services = await openTestServices(env);
  ana = await makeUser(services, { email: "Ana@example.com", name: "Ana" });
  ben = await makeUser(services, { email: "ben@example.com" });
  loft = await makeListing(services, ana.id, { title: "Loft" });
  hut = await makeListing(services, ben.id, { title: "Hut" });
  const guest = { guestEmail: "guest@example.com" };
  forms = [
    await makeForm(services, ana.id, loft.id, guest),
    await makeForm(services, ana.id, loft.id, guest),
    await makeForm(services, ben.id, hut.id, guest),
  ];
});

async function runText(...args: string[]): Promise<string> {
  const { stdout, code, message } = await runInProcess(args, env);
  expect({ code, message }).toEqual({ code: 0, message: "" });
  return stdout;
}

const runJson = async (...args: string[]) => JSON.parse(await runText(...args, "--json"));

async function runFailing(...args: string[]) {
  const { stdout, code, message } = await runInProcess(args, env);
  expect(stdout).toBe("");
  return [code, message];
}

const page = <Item>(...items: Item[]) => ({ items, nextCursor: null });

describe("read commands", () => {
  test("users list prints all users, newest first", async () => {
    expect(await runJson("users", "list")).toEqual(page(ben, ana));
    expect(await runText("users", "list")).toMatch(
      new RegExp(`^ID +EMAIL +NAME +CREATED AT\n${ben.id} +ben@example.com +- +\\S+\n${ana.id} .* Ana `),
    );
  });

  test("users find accepts an email address or an id", async () => {
    expect(await runJson("users", "find", "Ana@EXAMPLE.com")).toEqual(ana);
    expect(await runJson("users", "find", ana.id.toUpperCase())).toEqual(ana);
    const missing = [1, "There is no user with this email address or id."];
    for (const user of ["nobody@example.com", UNKNOWN_ID, "x"]) {
      expect(await runFailing("users", "find", user)).toEqual(missing);
    }
    expect(await runFailing("users", "find", "a@b")).toEqual([2, "USER: must be an email address"]);
  });

  test("listings list prints all listings or those in scope of a user's keys, and listings show prints one", async () => {
    expect(await runJson("listings", "list")).toEqual(page(hut, loft));
    expect(await runJson("listings", "list", "--user", "ana@example.com".replace("ana", "Ana"))).toEqual(
      page(loft),
    );
    expect(await runText("listings", "list", "--user", ben.id)).toMatch(
      new RegExp(`^ID +TITLE +CITY .*\n${hut.id} +Hut +Berlin +true +- `),
    );
    expect(await runJson("listings", "show", hut.id)).toEqual(hut);
    expect(await runText("listings", "show", hut.id)).toMatch(/\ntitle: +Hut\n/);
    expect(await runFailing("listings", "show", UNKNOWN_ID)).toEqual([
      1,
      "There is no listing with this id.",
    ]);
  });

  test("members list prints the members of a listing, or the memberships of a user", async () => {
    const member = {
      listingId: loft.id,
      listingTitle: "Loft",
      userId: ana.id,
      userEmail: ana.email,
      role: "owner",
    };
    expect(await runJson("members", "list", "--listing", loft.id)).toEqual(page(member));
    expect(await runJson("members", "list", "--user", ana.email)).toEqual(page(member));
    expect(await runText("members", "list", "--listing", loft.id)).toMatch(/ Ana@example\.com +owner\n$/);
    expect(await runText("members", "list", "--user", ana.id)).toMatch(/ Loft +owner\n$/);
    expect(await runFailing("members", "list")).toEqual([2, "--listing: give either a listing or a user"]);
    expect((await runFailing("members", "list", "--user", ana.id, "--listing", loft.id))[0]).toBe(2);
  });

  test("forms list prints all forms, those of a listing or those in scope of a user's keys, and never an email address", async () => {
    const [first, second, third] = forms;
    const all = await runJson("forms", "list");
    expect(all).toEqual(page(third, second, first));
    expect(JSON.stringify(all)).not.toContain("guest@");
    expect(await runJson("forms", "list", "--listing", hut.id)).toEqual(page(third));
    expect(await runJson("forms", "list", "--user", ana.email)).toEqual(page(second, first));
    expect(await runJson("forms", "list", "--user", ana.email, "--listing", hut.id)).toEqual(page());
    expect(await runText("forms", "list", "--user", ana.email, "--listing", hut.id)).toBe(
      "There are no forms.\n",
    );
    expect(await runJson("forms", "show", third?.id ?? "")).toEqual(third);
    expect(await runFailing("forms", "show", UNKNOWN_ID)).toEqual([1, "There is no form with this id."]);
    expect(await runFailing("forms", "list", "--listing", "loft")).toEqual([2, "--listing: must be a UUID"]);
  });

  test("keys list and notifications are paged, and notifications filters by state", async () => {
    await makeKey(services, ana.id);
    await makeKey(services, ana.id);
    for (const list of [
      ["keys", "list", "--user", ana.email],
      ["notifications", "--state", "waiting"],
    ]) {
      const first = await runJson(...list, "--limit", "1");
      const second = await runJson(...list, "--limit", "1", "--after", first.nextCursor);
      expect(second.items).toEqual([expect.not.objectContaining({ id: first.items[0].id })]);
      expect(await runText(...list, "--limit", "1")).toContain(`with --after ${first.nextCursor}`);
    }
    expect(await runText("notifications", "--state", "expired")).toBe(
      "There are no notifications in state expired.\n",
    );
    expect((await runFailing("notifications", "--state", "lost"))[0]).toBe(2);
  });

  test("a list with more results prints how to get them", async () => {
    const first = await runJson("forms", "list", "--limit", "2");
    expect(first.items).toHaveLength(2);
    const output = await runText("forms", "list", "--limit", "2");
    expect(output).toMatch(/\n\nMore results: run this again with --after [\w-]+\n$/);
    const cursor = output.trim().split(" ").at(-1) ?? "";
    expect(await runJson("forms", "list", "--limit", "2", "--after", cursor)).toEqual(page(forms[0]));
    expect(await runFailing("users", "list", "--after", cursor)).toEqual([
      2,
      expect.stringMatching(/^--after: [^\n]+$/),
    ]);
    for (const limit of ["0", "101", "x"]) {
      expect(await runFailing("users", "list", "--limit", limit)).toEqual([
        2,
        expect.stringContaining("--limit"),
      ]);
    }
  });
});

describe("options that name a user", () => {
  test("listings create, members and keys accept a user by id or email address", async () => {
    const place = ["--title", "Barn", "--address", "Weg 1", "--city", "Ulm", "--country", "Germany"];
    const location = ["--zip-code", "89073", "--timezone", "Europe/Berlin"];
    const owner = await makeUser(services, { email: "owner@example.com" });
    const barn = await runJson("listings", "create", "--owner", "owner@Example.com", ...place, ...location);
    const { members, keys } = asOperator(services);
    expect((await members.list({ userId: owner.id })).items).toMatchObject([{ listingId: barn.id }]);
    const joined = { listingId: barn.id, userId: ben.id, role: "reader" };
    const of = ["--listing", barn.id, "--user", ben.email];
    expect(await runJson("members", "set", ...of, "--role", "reader")).toEqual(joined);
    expect(await runJson("members", "remove", ...of)).toEqual(joined);
    const { id } = await runJson("keys", "issue", "--user", owner.email, "--mode", "read-only");
    expect(await keys.list({ userId: owner.id })).toMatchObject({ items: [{ id }] });
    expect(await runJson("keys", "list", "--user", owner.email)).toEqual(
      page(expect.objectContaining({ id })),
    );
  });

  test.each([
    ["listings", "list"],
    ["members", "list"],
    ["members", "remove", "--listing", UNKNOWN_ID],
    ["forms", "list"],
    ["keys", "list"],
    ["keys", "issue", "--mode", "read-only"],
  ])("%s %s rejects an unknown user and names the option", async (...args) => {
    expect(await runFailing(...args, "--user", "nobody@example.com")).toEqual([
      2,
      "--user: no user has this id or email address",
    ]);
  });

  test("findUserBy rejects anything that is neither a user's id nor a user's email address", async () => {
    const findUser = findUserBy(asOperator(services));
    expect(await findUser("--owner", ana.id.toUpperCase())).toBe(ana.id);
    for (const user of [UNKNOWN_ID, "nobody", "a@b", ""]) {
      await expect(findUser("--owner", user)).rejects.toMatchObject({
        exitCode: 2,
        message: "--owner: no user has this id or email address",
      });
    }
  });
});

describe("commands of the operator", () => {
  test("listings update changes only the given fields, and listings deactivate makes a listing inactive", async () => {
    const listing = await makeListing(services, ana.id, { district: "Mitte", maxVehicles: 2 });
    const { id } = listing;
    const changes = ["--title", "New", "--district", "", "--max-people", "3", "--max-vehicles", "none"];
    expect(await runJson("listings", "update", id, ...changes, "--allow-pets", "false")).toEqual({
      ...listing,
      title: "New",
      district: null,
      maxPeopleInListing: 3,
      maxVehicles: null,
      allowPets: false,
    });
    expect((await runJson("listings", "deactivate", id)).active).toBe(false);
    expect((await runJson("listings", "update", id, "--active", "true")).active).toBe(true);
    expect(await runFailing("listings", "update", id, "--max-people", "0")).toEqual([
      2,
      "--max-people: must be at least 1",
    ]);
    expect(await runFailing("listings", "deactivate", UNKNOWN_ID)).toEqual([
      1,
      "There is no listing with this id.",
    ]);
  });

  test("forms set-party and set-status change a form, and forms trail prints both changes", async () => {
    const { id: listingId } = await makeListing(services, ana.id, { maxVehicles: 2 });
    const form = await makeForm(services, ana.id, listingId);
    expect(await runJson("forms", "set-party", form.id, "--vehicles", "2", "--pets", "none")).toEqual({
      ...form,
      numberOfVehicles: 2,
    });
    expect(await runFailing("forms", "set-party", form.id, "--vehicles", "3")).toEqual([
      2,
      "--vehicles: must be at most 2 on this listing",
    ]);
    expect((await runJson("forms", "set-status", form.id, "CHECKED_OUT")).status).toBe("CHECKED_OUT");
    await asUser(services, ana.id).forms.get({ id: form.id });
    const trail = await runJson("forms", "trail", form.id);
    expect(trail).toEqual(await asOperator(services).audit.trail({ subjectId: form.id }));
    expect(await runText("forms", "trail", form.id)).toMatch(
      /form\.status_set +operator .*"correction":true/,
    );
  });

  test("trace prints the changes of a request and the log field to search for", async () => {
    const correlationId = randomUUID();
    const { id: listingId } = await makeListing(services, ana.id);
    await asUser(services, ana.id, { correlationId }).forms.create(fixedStay(listingId));
    const { entries, ...rest } = await runJson("trace", correlationId);
    expect(rest).toEqual({ correlationId, logField: "correlationId" });
    expect(entries).toEqual((await asOperator(services).audit.trace({ correlationId })).entries);
    expect(entries).toMatchObject([{ action: "form.created", actor: "user", userId: ana.id, correlationId }]);
    const text = await runText("trace", correlationId);
    expect(text).toMatch(/form\.created .* user /);
    expect(text).toContain(`"correlationId":"${correlationId}"`);
    expect(await runText("trace", UNKNOWN_ID)).toContain("No changes recorded");
    expect(await runFailing("trace", "yesterday")).toEqual([2, "ID: must be a UUID"]);
  });
});
