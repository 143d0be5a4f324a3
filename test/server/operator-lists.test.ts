import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ERRORS } from "../../server/errors.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { expectItems, makeUserWithForms, type ReadPage } from "../support/bulk.js";
import {
  asOperator,
  asUser,
  catchRejectedFields,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../support/factories.js";
import { setState } from "../support/outbox-queue.js";

const services = await openTestServices();
const operator = asOperator(services);
const ana = await makeUser(services, { email: "ana@example.com", name: "Ana" });
const ben = await makeUser(services, { email: "ben@example.com" });
const one = await makeListing(services, ana.id, { title: "One" });
const two = await makeListing(services, ana.id, { title: "Two" });
const three = await makeListing(services, ben.id, { title: "Three" });
await setRole(services, three.id, ana.id, "READER");
/** In creation order, on the three listings in turn. */
const forms: FormV1[] = [];
for (const { id } of [one, two, three, one, two, three]) {
  const user = id === three.id ? ben : ana;
  forms.push(await makeForm(services, user.id, id, { guestEmail: "guest@example.com" }));
}
const keys = [await makeKey(services, ana.id), await makeKey(services, ben.id), await makeKey(services, ana.id)];
// Revoked keys are listed, too.
await operator.keys.revoke({ id: keys[0]?.id ?? "" });

const userId = ana.id;

type Filters = Omit<Parameters<typeof operator.forms.listAll>[0], "limit" | "cursor">;

const UNKNOWN = randomUUID();
const formsOn = (...listings: { id: string }[]) =>
  forms
    .filter(({ listingId }) => listings.some(({ id }) => id === listingId))
    .map((form) => ({ ...form, emailState: "waiting" }))
    .toReversed();

describe("in pages of every size", () => {
  test("forms.listAll returns all forms, newest first, or those of a listing, of a user's scope or of both", () =>
    expectItems<Filters>(operator.forms.listAll, [
      [{}, formsOn(one, two, three)],
      [{ listingId: one.id }, formsOn(one)],
      [{ userId: userId.toUpperCase() }, formsOn(one, two)],
      [{ userId, listingId: one.id }, formsOn(one)],
      // Ana is only a reader, so the listing is out of her scope.
      [{ userId, listingId: three.id }, []],
      [{ userId: UNKNOWN }, []],
      [{ listingId: UNKNOWN }, []],
    ]));

  test("forms.listAll returns the forms in a status, with an external id, with check-in on a day in their listing's time zone, or all of these", async () => {
    const [first, second, third] = forms as [FormV1, FormV1, FormV1];
    const set = (id: string, status: string, checkIn: string) =>
      services.db.pool.query("UPDATE forms SET status = $2, check_in_date = $3 WHERE id = $1", [id, status, checkIn]);
    const setTimezone = (id: string, timezone: string) => operator.listings.update({ id, timezone });
    await setTimezone(one.id, "Pacific/Kiritimati");
    await setTimezone(two.id, "Pacific/Niue");
    // 2 July on the first listing, 1 July on the others.
    await set(first.id, "COMPLETED", "2027-07-01T10:30:00Z");
    await set(second.id, "ACCEPTED", "2027-07-02T10:30:00Z");
    await set(third.id, "ACCEPTED", "2027-07-01T00:00:00Z");
    // One booking on two listings.
    const externalId = "trip-1";
    await services.db.pool.query("UPDATE forms SET external_id = $1 WHERE id IN ($2, $3)", [
      externalId,
      first.id,
      third.id,
    ]);
    await expectItems<Filters>(
      async (input) => {
        const { items, nextCursor } = await operator.forms.listAll(input);
        return { items: items.map(({ id }) => id), nextCursor };
      },
      [
        [{}, forms.map(({ id }) => id).toReversed()],
        [{ status: "ACCEPTED" }, [third.id, second.id]],
        [{ status: "ACCEPTED", userId }, [second.id]],
        [{ status: "REJECTED" }, []],
        [{ checkInDay: "2027-07-01" }, [third.id, second.id]],
        [{ checkInDay: "2027-07-02" }, [first.id]],
        [{ checkInDay: "2027-07-01", listingId: three.id }, [third.id]],
        [{ checkInDay: "2027-07-01", userId, listingId: two.id }, [second.id]],
        [{ checkInDay: "2027-07-02", status: "ACCEPTED" }, []],
        [{ checkInDay: "9999-12-31" }, []],
        [{ externalId }, [third.id, first.id]],
        [{ externalId, userId }, [first.id]],
        [{ externalId, listingId: three.id, emailState: "waiting" }, [third.id]],
        [{ externalId, status: "ACCEPTED" }, [third.id]],
        [{ externalId, checkInDay: "2027-07-02" }, [first.id]],
        [{ externalId, arrivesWithinDays: 3 }, []],
        [{ externalId: "trip" }, []],
      ],
    );
    for (const [id, timezone] of [
      [one.id, one.timezone],
      [two.id, two.timezone],
    ] as const)
      await setTimezone(id, timezone);
    for (const status of ["UNKNOWN", "sent"] as string[])
      expect(await catchRejectedFields(operator.forms.listAll({ status: status as "SENT" }))).toEqual(["status"]);
    for (const checkInDay of ["2027-02-31", "2027-7-1", "0000-01-01", "2027-07-01T00:00:00Z", ""])
      expect(await catchRejectedFields(operator.forms.listAll({ checkInDay }))).toEqual(["checkInDay"]);
  });

  test("listings.listAll returns all listings or those in a user's scope, and users.list all users, newest first", async () => {
    await expectItems<{ userId?: string }>(operator.listings.listAll, [
      [{}, [three, two, one]],
      [{ userId }, [two, one]],
      [{ userId: UNKNOWN }, []],
    ]);
    await expectItems(operator.users.list, [[{}, [ben, ana]]]);
  });

  test("listings.listAll and users.list find a part of a name, ignoring case, and no pattern", async () => {
    // Stored before texts were composed.
    const own = { externalId: "PMS-42", city: "Zürich".normalize("NFD") };
    await services.db.prisma.listing.update({ where: { id: two.id }, data: own });
    await services.db.prisma.user.update({ where: { id: ben.id }, data: { externalId: "host_7" } });
    const found = { ...two, ...own };
    await expectItems<{ userId?: string; search?: string }>(operator.listings.listAll, [
      [{ search: "TWO" }, [found]],
      [{ search: "o" }, [found, one]],
      [{ search: "ZÜR" }, [found]],
      [{ search: "pms-4" }, [found]],
      [{ search: "thr", userId }, []],
      [{ search: "one", userId }, [one]],
      [{ search: "%" }, []],
      [{ search: "wo\\nZ" }, []],
    ]);
    await expectItems<{ search?: string }>(operator.users.list, [
      [{ search: "BEN@" }, [{ ...ben, externalId: "host_7" }]],
      [{ search: "an" }, [ana]],
      [{ search: "ost_" }, [{ ...ben, externalId: "host_7" }]],
      [{ search: "_" }, [{ ...ben, externalId: "host_7" }]],
    ]);
    await services.db.prisma.listing.update({ where: { id: two.id }, data: { externalId: null, city: two.city } });
    expect(await catchRejectedFields(operator.users.list({ search: " " }))).toEqual(["search"]);
  });

  test("members.list returns the members of a listing or the memberships of a user", async () => {
    const member = ({ id: listingId, title: listingTitle }: typeof one, { id, email }: typeof ana, role: string) => ({
      ...{ listingId, listingTitle, userId: id, userEmail: email, role },
    });
    const ofThree = [member(three, ana, "READER"), member(three, ben, "OWNER")];
    await expectItems<{ listingId?: string; userId?: string }>(operator.members.list, [
      [{ listingId: three.id }, ofThree.sort((a, b) => (a.userId < b.userId ? -1 : 1))],
      [{ userId }, [member(one, ana, "OWNER"), member(two, ana, "OWNER"), member(three, ana, "READER")]],
      [{ listingId: UNKNOWN }, []],
    ]);
    for (const filter of [{}, { listingId: one.id, userId }]) {
      expect(await catchRejectedFields(operator.members.list(filter))).toEqual(["listingId"]);
    }
  });

  test("keys.list returns all keys or a user's, oldest first", async () => {
    const ids = (items: { id: string }[]) => items.map(({ id }) => expect.objectContaining({ id }));
    await expectItems<{ userId?: string }>(operator.keys.list, [
      [{}, ids(keys)],
      [{ userId: userId.toUpperCase() }, ids(keys.filter((key) => key.userId === userId))],
      [{ userId: UNKNOWN }, []],
      [{ userId: "x" }, []],
    ]);
  });

  test("emails.list returns the unsent ones, those in a state, or all of a form, oldest first, and sent ones newest first", async () => {
    const [, sent, failed] = forms;
    const shown = (form: FormV1 | undefined, state = "waiting") => expect.objectContaining({ formId: form?.id, state });
    const { pool } = services.db;
    // Some were created in the same millisecond, and the ids get another digit among them.
    await pool.query(
      "UPDATE emails SET id = id + 7, created_at = CASE WHEN form_id = ANY($1) THEN now() ELSE now() - interval '1 day' END",
      [forms.slice(3).map(({ id }) => id)],
    );
    await pool.query(setState("emails", "sent", "form_id = $1"), [sent?.id]);
    await pool.query(setState("emails", "failed", "form_id = $1"), [failed?.id]);
    const later = forms.slice(3).map((form) => shown(form));
    const formId = sent?.id ?? "";
    await pool.query(
      `INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id)
       SELECT kind, form_id, tenant_id, check_in_date, correlation_id FROM emails WHERE form_id = $1`,
      [formId],
    );
    const ofForm = [shown(sent, "sent"), shown(sent)];
    await expectItems<{ formId?: string; state?: "waiting" }>(operator.emails.list, [
      [{ formId: formId.toUpperCase() }, ofForm],
      [{ formId, state: "waiting" }, ofForm.slice(1)],
      [{ formId: UNKNOWN }, []],
      [{ formId: "x" }, []],
    ]);
    await pool.query("DELETE FROM emails WHERE form_id = $1 AND state = 'waiting'", [formId]);
    await expectItems<{ state?: "waiting" | "failed" | "expired" }>(operator.emails.list, [
      [{}, [shown(forms[0]), shown(failed, "failed"), ...later]],
      [{ state: "waiting" }, [shown(forms[0]), ...later]],
      [{ state: "failed" }, [shown(failed, "failed")]],
      [{ state: "expired" }, []],
    ]);
    await pool.query(
      "UPDATE emails SET state = 'sent', next_attempt_at = NULL, ended_at = now() + interval '1 day' WHERE form_id = $1",
      [failed?.id],
    );
    await expectItems<{ state?: "sent" }>(operator.emails.list, [
      [{ state: "sent" }, [shown(failed, "sent"), shown(sent, "sent")]],
    ]);
    await pool.query("UPDATE emails SET id = id - 7");
    await pool.query(setState("emails", "waiting"));
  });
});

test("a cursor is valid only for its own list and filter", async () => {
  const user = asUser(services, userId);
  const listingId = one.id;
  await services.db.pool.query(
    `INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id)
     SELECT kind, form_id, tenant_id, check_in_date, correlation_id FROM emails WHERE form_id = $1`,
    [forms[0]?.id],
  );
  const lists: Record<string, ReadPage> = {
    forms: (input) => operator.forms.listAll(input),
    "forms of a user": (input) => operator.forms.listAll({ ...input, userId }),
    "forms on a listing": (input) => operator.forms.listAll({ ...input, listingId }),
    "forms in a status": (input) => operator.forms.listAll({ ...input, status: "SENT" }),
    "forms of a user on a listing": (input) => operator.forms.listAll({ ...input, listingId, userId }),
    listings: (input) => operator.listings.listAll(input),
    "listings with an o": (input) => operator.listings.listAll({ ...input, search: "o" }),
    "listings of a user": (input) => operator.listings.listAll({ ...input, userId }),
    users: (input) => operator.users.list(input),
    "users with an e": (input) => operator.users.list({ ...input, search: "e" }),
    members: (input) => operator.members.list({ ...input, listingId: three.id }),
    memberships: (input) => operator.members.list({ ...input, userId }),
    keys: (input) => operator.keys.list(input),
    "keys of a user": (input) => operator.keys.list({ ...input, userId }),
    emails: (input) => operator.emails.list(input),
    "emails in a state": (input) => operator.emails.list({ ...input, state: "waiting" }),
    "emails of a form": (input) => operator.emails.list({ ...input, formId: forms[0]?.id }),
    "public forms": (input) => user.forms.list(input),
    "public forms on a listing": (input) => user.forms.list({ ...input, listingId }),
    "public forms on another listing": (input) => user.forms.list({ ...input, listingId: two.id }),
    "public listings": (input) => user.listings.list(input),
  };
  for (const [of, list] of Object.entries(lists)) {
    const cursor = (await list({ limit: 1 })).nextCursor ?? expect.fail("there is no next page");
    for (const [name, read] of Object.entries(lists)) {
      const outcome = await read({ cursor }).then(
        () => "read",
        ({ message }) => message,
      );
      expect([of, name, outcome]).toEqual([of, name, name === of ? "read" : ERRORS.INVALID_CURSOR.message]);
    }
  }
});

test("forms.listAll returns the forms in a status in a scope of more than 5,000 forms", async () => {
  const large = await makeUserWithForms(services, { listings: 2, formsPerListing: 2_501, distinctTimes: 1_000 });
  await services.db.pool.query(
    `WITH chosen AS (
       SELECT form_id FROM scoped_forms WHERE user_id = $1 ORDER BY created_at, form_id OFFSET 2000 LIMIT 3
     )
     UPDATE forms SET status = 'REJECTED' WHERE id IN (SELECT form_id FROM chosen) OR id = $2`,
    [large, forms[0]?.id],
  );
  const { rows } = await services.db.pool.query(
    `SELECT f.id FROM scoped_forms s JOIN forms f ON f.id = s.form_id
     WHERE s.user_id = $1 AND f.status = 'REJECTED' ORDER BY f.created_at DESC, f.id DESC`,
    [large],
  );
  expect(rows).toHaveLength(3);
  await expectItems<Filters>(
    async (input) => {
      const { items, nextCursor } = await operator.forms.listAll(input);
      return { items: items.map(({ id }) => ({ id })), nextCursor };
    },
    [[{ status: "REJECTED", userId: large }, rows]],
  );
});
