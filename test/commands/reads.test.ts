import { beforeAll, describe, expect, test } from "vitest";
import { findUserBy } from "../../gateway/commands/find-user.js";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import type { User } from "../../server/people/schema.js";
import { asOperator, makeForm, makeListing, makeUser, openTestServices, TEST_SECRET } from "../factories.js";
import { createTestDatabase } from "../harness.js";
import { runInProcess } from "./in-process.js";

const NOBODY = "00000000-0000-4000-8000-000000000000";

let env: Record<string, string>;
let services: Services;
let ana: User;
let ben: User;
let loft: Listing;
let hut: Listing;
/** Two on the loft, one on the hut, in this order. */
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

async function text(...args: string[]): Promise<string> {
  const { stdout, code, message } = await runInProcess(args, env);
  expect({ code, message }).toEqual({ code: 0, message: "" });
  return stdout;
}

const json = async (...args: string[]) => JSON.parse(await text(...args, "--json"));

async function failure(...args: string[]) {
  const { stdout, code, message } = await runInProcess(args, env);
  expect(stdout).toBe("");
  return [code, message];
}

const page = <Item>(...items: Item[]) => ({ items, nextCursor: null });

describe("the commands that read", () => {
  test("users list shows all users, newest first", async () => {
    expect(await json("users", "list")).toEqual(page(ben, ana));
    expect(await text("users", "list")).toMatch(
      new RegExp(`^ID +EMAIL +NAME +CREATED AT\n${ben.id} +ben@example.com +- +\\S+\n${ana.id} .* Ana `),
    );
  });

  test("users find takes an e-mail address or an id", async () => {
    expect(await json("users", "find", "Ana@EXAMPLE.com")).toEqual(ana);
    expect(await json("users", "find", ana.id.toUpperCase())).toEqual(ana);
    const missing = [1, "There is no user with this e-mail address or id."];
    for (const user of ["nobody@example.com", NOBODY, "x"]) {
      expect(await failure("users", "find", user)).toEqual(missing);
    }
    expect(await failure("users", "find", "a@b")).toEqual([2, "USER: must be an email address"]);
  });

  test("listings list shows all, or those that a user's keys see; listings show one", async () => {
    expect(await json("listings", "list")).toEqual(page(hut, loft));
    expect(await json("listings", "list", "--user", "ana@example.com".replace("ana", "Ana"))).toEqual(
      page(loft),
    );
    expect(await text("listings", "list", "--user", ben.id)).toMatch(
      new RegExp(`^ID +TITLE +CITY .*\n${hut.id} +Hut +Berlin +true +- `),
    );
    expect(await json("listings", "show", hut.id)).toEqual(hut);
    expect(await text("listings", "show", hut.id)).toMatch(/\ntitle: +Hut\n/);
    expect(await failure("listings", "show", NOBODY)).toEqual([1, "There is no listing with this id."]);
  });

  test("members list shows who is on a listing, or what a user is on", async () => {
    const member = {
      listingId: loft.id,
      listingTitle: "Loft",
      userId: ana.id,
      userEmail: ana.email,
      role: "owner",
    };
    expect(await json("members", "list", "--listing", loft.id)).toEqual(page(member));
    expect(await json("members", "list", "--user", ana.email)).toEqual(page(member));
    expect(await text("members", "list", "--listing", loft.id)).toMatch(/ Ana@example\.com +owner\n$/);
    expect(await text("members", "list", "--user", ana.id)).toMatch(/ Loft +owner\n$/);
    expect(await failure("members", "list")).toEqual([2, "--listing: give either a listing or a user"]);
    expect((await failure("members", "list", "--user", ana.id, "--listing", loft.id))[0]).toBe(2);
  });

  test("forms list shows all, those of a listing, or those that a user's keys see, and never an address", async () => {
    const [first, second, third] = forms;
    const all = await json("forms", "list");
    expect(all).toEqual(page(third, second, first));
    expect(JSON.stringify(all)).not.toContain("guest@");
    expect(await json("forms", "list", "--listing", hut.id)).toEqual(page(third));
    expect(await json("forms", "list", "--user", ana.email)).toEqual(page(second, first));
    expect(await json("forms", "list", "--user", ana.email, "--listing", hut.id)).toEqual(page());
    expect(await text("forms", "list", "--user", ana.email, "--listing", hut.id)).toBe(
      "There are no forms.\n",
    );
    expect(await json("forms", "show", third?.id ?? "")).toEqual(third);
    expect(await failure("forms", "show", NOBODY)).toEqual([1, "There is no form with this id."]);
    expect(await failure("forms", "list", "--listing", "loft")).toEqual([2, "--listing: must be a UUID"]);
  });

  test("a list that goes on says how to get the rest", async () => {
    const first = await json("forms", "list", "--limit", "2");
    expect(first.items).toHaveLength(2);
    const said = await text("forms", "list", "--limit", "2");
    expect(said).toMatch(/\n\nMore results: run this again with --after [\w-]+\n$/);
    const cursor = said.trim().split(" ").at(-1) ?? "";
    expect(await json("forms", "list", "--limit", "2", "--after", cursor)).toEqual(page(forms[0]));
    expect(await failure("users", "list", "--after", cursor)).toEqual([
      2,
      expect.stringMatching(/^--after: [^\n]+$/),
    ]);
    for (const limit of ["0", "101", "x"]) {
      expect(await failure("users", "list", "--limit", limit)).toEqual([
        2,
        expect.stringContaining("--limit"),
      ]);
    }
  });
});

describe("a user is named by id or e-mail address", () => {
  test("by listings create, members and keys", async () => {
    const place = ["--title", "Barn", "--address", "Weg 1", "--city", "Ulm", "--country", "Germany"];
    const where = ["--zip-code", "89073", "--timezone", "Europe/Berlin"];
    const owner = await makeUser(services, { email: "owner@example.com" });
    const barn = await json("listings", "create", "--owner", "owner@Example.com", ...place, ...where);
    const { members, keys } = asOperator(services);
    expect((await members.list({ userId: owner.id })).items).toMatchObject([{ listingId: barn.id }]);
    const joined = { listingId: barn.id, userId: ben.id, role: "reader" };
    const of = ["--listing", barn.id, "--user", ben.email];
    expect(await json("members", "set", ...of, "--role", "reader")).toEqual(joined);
    expect(await json("members", "remove", ...of)).toEqual(joined);
    const { id } = await json("keys", "issue", "--user", owner.email, "--mode", "read-only");
    expect(await keys.list({ userId: owner.id })).toMatchObject([{ id }]);
    expect(await json("keys", "list", "--user", owner.email)).toMatchObject([{ id }]);
  });

  test.each([
    ["listings", "list"],
    ["members", "list"],
    ["members", "remove", "--listing", NOBODY],
    ["forms", "list"],
    ["keys", "list"],
    ["keys", "issue", "--mode", "read-only"],
  ])("%s %s refuses an unknown one, naming the option", async (...args) => {
    expect(await failure(...args, "--user", "nobody@example.com")).toEqual([
      2,
      "--user: no user has this id or e-mail address",
    ]);
  });

  test("whatever is neither is refused", async () => {
    const findUser = findUserBy(asOperator(services));
    expect(await findUser("--owner", ana.id.toUpperCase())).toBe(ana.id);
    for (const user of [NOBODY, "nobody", "a@b", ""]) {
      await expect(findUser("--owner", user)).rejects.toMatchObject({
        exitCode: 2,
        message: "--owner: no user has this id or e-mail address",
      });
    }
  });
});
