import { describe, expect, test } from "vitest";
import { asOperator, makeForm, makeKey, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { commandsWith } from "../support/run-in-process.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

const services = await openTestServices();
const operator = asOperator(services);
const { text, json, failure } = commandsWith({ DATABASE_URL: services.db.url });

const ana = await makeUser(services, { email: "Ana@example.com", name: "Ana" });
const ben = await makeUser(services, { email: "ben@example.com" });
const loft = await makeListing(services, ana.id, { title: "Loft" });
const hut = await makeListing(services, ben.id, { title: "Hut" });
const guest = { guestEmail: "guest@example.com" };
/** Two on the loft and one on the hut. */
const first = await makeForm(services, ana.id, loft.id, guest);
const second = await makeForm(services, ana.id, loft.id, guest);
const third = await makeForm(services, ben.id, hut.id, guest);
const [{ formId: _, ...email } = { formId: "" }] = (await operator.emails.list({ formId: third.id })).items;
/** Forms as they are listed. */
const pageOfForms = (...forms: object[]) => page(...forms.map((form) => ({ ...form, emailState: "waiting" })));
const shown = { ...third, hasGuestEmail: true, emails: [email] };

const page = <Item>(...items: Item[]) => ({ items, nextCursor: null });
const words = (command: string) => command.split(" ");

describe("commands that read", () => {
  const owns = { listingId: loft.id, userId: ana.id, role: "owner", listingTitle: "Loft", userEmail: ana.email };
  // Swedish dates are ISO 8601.
  const checkInDay = new Intl.DateTimeFormat("sv", { timeZone: hut.timezone }).format(
    new Date(third.checkInDate ?? ""),
  );
  test.each<[string, unknown]>([
    ["users list", page(ben, ana)],
    ["users find Ana@EXAMPLE.com", ana],
    [`users find ${ana.id.toUpperCase()}`, ana],
    ["listings list", page(hut, loft)],
    [`listings list --user ${ana.email}`, page(loft)],
    ["listings list --search LOF", page(loft)],
    ["users list --search ana", page(ana)],
    [`listings show ${hut.id}`, hut],
    [`members list --listing ${loft.id}`, page(owns)],
    [`members list --user ${ana.email}`, page(owns)],
    ["forms list", pageOfForms(third, second, first)],
    [`forms list --listing ${hut.id}`, pageOfForms(third)],
    [`forms list --user ${ana.email}`, pageOfForms(second, first)],
    [`forms list --user ${ana.email} --listing ${hut.id}`, page()],
    [`forms list --status SENT --listing ${hut.id} --check-in ${checkInDay}`, pageOfForms(third)],
    ["forms list --check-in 2020-01-01", page()],
    ["forms list --status ACCEPTED", page()],
    ["emails list --state sent", page()],
    [`forms show ${third.id}`, shown],
    [`forms show /${third.publicId}`, shown],
    ...[
      "register/{}",
      "{}-form",
      "form-{}",
      "{}/registration-complete?lang=de",
      "?url=https%3A%2F%2Fx%2F{}%2Fform",
    ].map((path): [string, unknown] => [
      `forms show https://a.example/${path.replace("{}", third.publicId ?? "")}`,
      shown,
    ]),
  ])("%s prints what the core returns, forms without the guest's address", async (command, expected) => {
    expect(await json(...words(command))).toEqual(expected);
  });

  test("without --json they print tables, newest first, properties by name, or that there is nothing", async () => {
    expect(await text("users", "list")).toMatch(
      new RegExp(
        `^ID +EXTERNAL ID +EMAIL +NAME +CREATED AT\n${ben.id} +- +ben@example.com +- +\\S+\n${ana.id} .* Ana `,
      ),
    );
    expect(await text("listings", "show", hut.id)).toMatch(/\ntitle: +Hut\n/);
    expect(await text("forms", "list", "--user", ana.id, "--listing", hut.id)).toBe("There are no forms.\n");
    const none = "There are no emails in state expired.\n";
    expect(await text("emails", "list", "--state", "expired")).toBe(none);
    const noneSent = "There are no emails in state sent.\n";
    expect(await text("emails", "list", "--state", "sent")).toBe(noneSent);
    const noneOfForm = "There are no emails in state failed of this form.\n";
    expect(await text("emails", "list", "--state", "failed", "--form", third.id)).toBe(noneOfForm);
  });

  test("forms show prints the emails about the form, or that there are none", async () => {
    expect(await text("forms", "show", third.id)).toMatch(
      /^id: [\s\S]*\n\nID +STATE +ATTEMPTS +RUN AT +SENT AT +MESSAGE ID +REPLY +LAST ERROR\n\d+ +waiting +0 +\S+Z +- +- +- +-\n$/,
    );
    const bare = await makeForm(services, ana.id, (await makeListing(services, ana.id)).id);
    expect(await text("forms", "show", bare.id)).toMatch(
      /^hasGuestEmail: +false\n\nThere are no emails about this form, and no address: /m,
    );
    const over = { checkInDate: "2020-07-01T15:00:00Z", checkOutDate: "2020-07-08T10:00:00Z", ...guest };
    const past = await makeForm(services, ana.id, bare.listingId, over);
    expect(await text("forms", "show", past.id)).toMatch(
      /^hasGuestEmail: +true\n\nThere are no emails about this form: its stay was over/m,
    );
    expect(await failure("emails", "send", past.id)).toEqual([2, "FORM: the stay is over: the invitation is not sent"]);
    await services.db.pool.query("DELETE FROM forms WHERE id = ANY ($1)", [[bare.id, past.id]]);
  });

  test("lists are paged, a list with more results prints how to get them, and emails list filters by state", async () => {
    await makeKey(services, ana.id);
    await makeKey(services, ana.id);
    for (const command of ["forms list", `keys list --user ${ana.email}`, "emails list --state waiting"]) {
      const list = [...words(command), "--limit", "1"];
      const start = await json(...list);
      const next = await json(...list, "--after", start.nextCursor);
      expect(next.items).toEqual([expect.not.objectContaining({ id: start.items[0].id })]);
      const more = `\n\nMore results: run this again with --after ${start.nextCursor}\n`;
      expect(await text(...list)).toContain(more);
      if (command === "forms list") {
        const otherList = await failure("users", "list", "--after", start.nextCursor);
        expect(otherList).toEqual([2, expect.stringMatching(/^--after: /)]);
      }
    }
  });

  test("forms and listings are found by a public id and an external id that begin with -", async () => {
    const listing = await makeListing(services, ana.id);
    await services.db.pool.query("UPDATE listings SET external_id = '-loft' WHERE id = $1", [listing.id]);
    const insert = "INSERT INTO forms (public_id, listing_id, fingerprint) VALUES ($1, $2, '') RETURNING id";
    for (const publicId of ["-oqi9IK9ydzCbIXA_D0-h", "--qi9IK9ydzCbIXA_D0-h", "-hqi9IK9ydzCbIXA_D0-h"]) {
      const [{ id }] = (await services.db.pool.query(insert, [publicId, listing.id])).rows;
      for (const args of [[publicId], ["--json", publicId], ["--", publicId]])
        expect(await text("forms", "show", ...args), args.join(" ")).toContain(id);
      expect(await json("forms", "trail", publicId)).toEqual([]);
      expect(await json("emails", "list", "--form", publicId)).toEqual(page());
      const declined = await json("forms", "set-status", publicId, "ACCEPTED", "--from", "SENT", "--yes");
      expect(declined).toMatchObject({ id, status: "ACCEPTED" });
      await services.db.pool.query("DELETE FROM forms WHERE id = $1", [id]);
    }
    expect(await json("forms", "list", "--listing", "-loft")).toEqual(page());
    expect(await json("forms", "list", "--listing=-loft")).toEqual(page());
    expect(await text("listings", "show", "--", "-loft")).toContain(listing.id);
  });

  test("trace prints the changes of a request and the log field to search for", async () => {
    const [{ correlationId } = { correlationId: "" }] = await operator.audit.trail({ subjectId: third.id });
    const traced = await operator.audit.trace({ correlationId });
    expect(traced.entries).toHaveLength(1);
    expect(await json("trace", correlationId)).toEqual(traced);
    const printed = await text("trace", correlationId);
    expect(printed).toContain(`"correlationId":"${correlationId}"`);
    expect(printed).toContain("ACTOR NAME");
    expect(await text("trace", UNKNOWN_ID)).toContain("No changes recorded");
  });
});

const NO_USER = "There is no user with this id, external id or email address.";
const NO_LISTING = "There is no listing with this id or external id.";
const NO_FORM = "There is no form with this id, external id, public id or link.";

test.each<[string, number, string | RegExp]>([
  ...["nobody@example.com", UNKNOWN_ID, "x"].map((user): [string, number, string] => [
    `users find ${user}`,
    1,
    NO_USER,
  ]),
  [`users update ${ana.id}`, 2, "Give --email, --name or both."],
  ["users update nobody@example.com --name x", 1, NO_USER],
  [`users create --email ana@example.com`, 2, `--email: a user with this address already exists: ${ana.id}`],
  ...["0", "101", "x"].map((limit): [string, number, RegExp] => [`users list --limit ${limit}`, 2, /--limit/]),
  [`listings show ${UNKNOWN_ID}`, 1, NO_LISTING],
  [`listings deactivate ${UNKNOWN_ID}`, 1, NO_LISTING],
  ["members list", 2, "--listing: give either a listing or a user"],
  [`members set --listing ${loft.id} --user ${ben.id} --role OWNER`, 2, /Allowed choices are owner, writer/],
  [`members remove --listing ${hut.id} --user ${ana.id}`, 1, /This user has no role on this listing/],
  ["forms list --listing loft", 2, "--listing: no listing has this id or external id"],
  [`forms set-status ${first.id} ACEPTED`, 2, /STATUS: must be one of SENT, .*ACCEPTED/],
  [`forms set-status ${first.id} accepted`, 2, /STATUS: must be one of SENT, .*; if forced, 1 to 32 of/],
  [`forms set-party ${first.id}`, 2, "Give --vehicles, --pets or both."],
  ["forms list --after abc", 2, /^--after: must be the cursor printed after the previous page/],
  [`listings update ${loft.id}`, 2, "Give at least one option to change."],
  [
    "export --output /nonexistent/hosts.csv",
    1,
    "Cannot write /nonexistent/hosts.csv: there is no such folder. Choose another --output.",
  ],
  [`forms set-status ${UNKNOWN_ID} ACCEPTED`, 1, NO_FORM],
  [`forms set-party https://app.example.com/register/nothing --pets 1`, 1, NO_FORM],
  ["emails list --state lost", 2, /state/],
  ["forms list --status SEND", 2, /--status.*Allowed choices are SENT, /],
  ["forms list --check-in 2027-02-31", 2, "--check-in: must be a date from 1970 to 9999, such as 2027-07-01"],
  [`emails list --form ${UNKNOWN_ID}-`, 1, NO_FORM],
  [`emails send ${UNKNOWN_ID}`, 1, NO_FORM],
  [
    `keys issue --user ${ana.id} --mode read-only --expires-at tomorrow`,
    2,
    /^--expires-at: must be an ISO 8601 instant/,
  ],
  [`keys rotate ${UNKNOWN_ID}`, 1, /There is no key with this id/],
  ["keys revoke grf_rw_NoKey", 1, /There is no key with this id/],
  [`keys rotate ${UNKNOWN_ID} --grace 2weeks`, 2, /--grace.*s, m, h or d/],
  [`keys rotate ${UNKNOWN_ID} --grace 366d`, 2, /--grace: must be at most a year/],
  ["trace yesterday", 2, "ID: must be a UUID"],
])("%s exits with %d and one line: %s", async (command, code, message) => {
  const line = typeof message === "string" ? message : expect.stringMatching(message);
  expect(await failure(...words(command))).toEqual([code, line]);
});

test.each([
  "listings list",
  "members list",
  `members remove --listing ${UNKNOWN_ID}`,
  "forms list",
  "keys list",
  "keys issue --mode read-only",
])("%s rejects an unknown user and names the option", async (command) => {
  for (const user of ["nobody@example.com", UNKNOWN_ID, "a@b"]) {
    const unknown = [2, "--user: no user has this id, external id or email address"];
    expect(await failure(...words(command), "--user", user)).toEqual(unknown);
  }
});

test("--user that finds two users says so, and names both", async () => {
  const [one, two] = [await makeUser(services), await makeUser(services)];
  await services.db.pool.query("UPDATE users SET external_id = $1 WHERE id = $2", [one.email, two.id]);
  expect(await failure("keys", "list", "--user", one.email)).toEqual([
    2,
    expect.stringMatching(new RegExp(`^--user: two users have .*(${one.id}|${two.id}), (${one.id}|${two.id})$`)),
  ]);
});
