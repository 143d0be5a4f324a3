import { beforeEach, expect, test } from "vitest";
import { ServiceError } from "../../server/errors.js";
import { openTestCore } from "../support/core.js";
import { createTestDatabase } from "../support/database.js";
import { asOperator, asUser } from "../support/factories.js";
import type { ListingOwner } from "../support/listing-owner.js";
import { scale } from "../support/rounds.js";
import { fixedStay } from "../support/stays.js";
import { openClient } from "./open-test-db.js";

const core = await openTestCore({ DATABASE_POOL_SIZE: "12" });
const { services, sql, makeUser, setRole } = core;

let owner: ListingOwner;
let colleague: string;
let listing: string;
let other: string;

beforeEach(async () => {
  owner = await core.makeOwner();
  colleague = (await makeUser()).id;
  listing = owner.listingId;
  other = (await owner.addListing()).id;
});

const SCOPE = `
  SELECT m.user_id, f.created_at, f.id
  FROM forms f JOIN memberships m ON m.listing_id = f.listing_id WHERE m.role IN ('OWNER', 'WRITER')`;
const STORED = "SELECT user_id, created_at, form_id FROM scoped_forms";

/** Fails unless scoped_forms equals the scopes of all users. Returns how many forms each given user sees. */
async function expectExactScopes(users: string[] = [], on: Pick<typeof core, "sql" | "asUser"> = core) {
  const rows = await on.sql(`SELECT
    (SELECT count(*)::int FROM (${SCOPE} EXCEPT ${STORED}) x) AS missing,
    (SELECT count(*)::int FROM (${STORED} EXCEPT ${SCOPE}) x) AS stale`);
  expect(rows).toEqual([{ missing: 0, stale: 0 }]);
  const pages = users.map((user) => on.asUser(user).forms.list({ limit: 100 }));
  return (await Promise.all(pages)).map(({ items }) => items.length);
}

const addForms = (listingId: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => owner.addForm({ listingId })));

test("a form is listed for all owners and writers of its listing, not for readers", async () => {
  const reader = (await makeUser()).id;
  await setRole(listing, colleague, "WRITER");
  await setRole(listing, reader, "READER");
  await addForms(listing, 2);
  const [{ id } = { id: "" }] = await addForms(other, 1);
  expect(await expectExactScopes([owner.userId, colleague, reader])).toEqual([3, 2, 0]);
  await owner.forms.update({ id, ...fixedStay(listing) });
  expect(await expectExactScopes([owner.userId, colleague, reader]), "also if it is moved there").toEqual([3, 3, 0]);
});

test.each([
  ["forms", "DELETE FROM forms WHERE listing_id = $1", 1, 0],
  ["a listing", "DELETE FROM listings WHERE id = $1", 1, 0],
  [
    "a user",
    "DELETE FROM users WHERE id = (SELECT user_id FROM memberships WHERE listing_id = $1 AND role = 'WRITER')",
    4,
    0,
  ],
])("deleting %s removes the forms from every scope", async (_, statement, ofOwner, ofColleague) => {
  await setRole(listing, colleague, "WRITER");
  await addForms(listing, 3);
  await addForms(other, 1);
  await sql(statement, listing);
  expect(await expectExactScopes([owner.userId, colleague])).toEqual([ofOwner, ofColleague]);
});

test.each(["read committed", "repeatable read", "serializable"])(
  "scoped_forms stays exact while memberships and forms change concurrently, with default_transaction_isolation %s",
  { timeout: 180_000 },
  async (level) => {
    const { url } = await createTestDatabase();
    const database = new URL(url).pathname.slice(1);
    await sql(`ALTER DATABASE "${database}" SET default_transaction_isolation TO '${level}'`);
    /** Two processes on one database. */
    const isolated = await openTestCore({ DATABASE_URL: url, DATABASE_POOL_SIZE: "12" });
    const { services: first, owner: user } = isolated;
    const second = await isolated.openProcess();
    const shown = await isolated.sql("SHOW default_transaction_isolation");
    expect(shown).toEqual([{ default_transaction_isolation: level }]);
    const listings = [user.listingId, (await user.addListing()).id] as const;
    // At READ COMMITTED nothing conflicts: writers wait for each other.
    const complete = level === "read committed" ? (call: () => Promise<unknown>) => call() : retryUnavailable;
    const members = await Promise.all(Array.from({ length: 4 }, async () => (await isolated.makeUser()).id));
    const forms = await Promise.all(Array.from({ length: 4 }, () => user.addForm()));
    const creating = Array.from({ length: 6 }, async (_, writer) => {
      const caller = asUser(writer % 2 ? first : second, user.userId).forms;
      for (let round = 1; round <= 10; round++) {
        const body = fixedStay(listings[writer % 3 ? 0 : 1], { numberOfGuests: writer * 100 + round });
        await complete(() => caller.create(body));
      }
    });
    const moving = forms.map(async ({ id }, mover) => {
      const caller = asUser(mover % 2 ? first : second, user.userId).forms;
      for (let round = 0; round < scale(8); round++)
        await complete(() => caller.update({ id, ...fixedStay(listings[round % 2 ? 0 : 1]) }));
    });
    const joining = members.map(async (userId, member) => {
      const core = asOperator(member % 2 ? first : second).members;
      for (let round = 0; round < scale(6); round++) {
        for (const listingId of listings) {
          const role = round % 3 === 1 ? "READER" : "WRITER";
          await complete(() => core.set({ listingId, userId, role }));
          if (round % 3 === 2) await complete(() => core.remove({ listingId, userId }));
        }
      }
    });
    await Promise.all([...creating, ...moving, ...joining]);
    await expectExactScopes([], isolated);
    expect(await isolated.sql("SELECT FROM forms")).toHaveLength(4 + 6 * 10);
  },
);

/** Repeats a call that fails with 503 because of repeated conflicts. */
async function retryUnavailable(call: () => Promise<unknown>): Promise<unknown> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ServiceError && error.status === 503)) throw error;
    }
  }
}

test("at REPEATABLE READ, no form can be written on a listing whose members changed since the snapshot, and no membership", async () => {
  await addForms(listing, 1);
  const older = await openClient(services.db.url);
  const insert = `INSERT INTO forms (public_id, listing_id, fingerprint)
    SELECT gen_random_uuid(), listing_id, fingerprint FROM forms WHERE listing_id = '${listing}'`;
  for (const role of ["WRITER", "READER", "NONE"] as const) {
    await older.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await older.query("SELECT FROM forms");
    await setRole(listing, colleague, role);
    await expect(older.query(insert)).rejects.toThrow("could not serialize access");
    await older.query("ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE");
    const change = older.query("UPDATE memberships SET role = 'READER' WHERE listing_id = $1", [listing]);
    await expect(change).rejects.toThrow("memberships change at READ COMMITTED only");
    await older.query("ROLLBACK");
  }
  await expectExactScopes();
});

test("a form that leaves a listing does not enter the scope of a user who joins the listing concurrently", async () => {
  const [form] = await addForms(listing, 1);
  const mover = await core.holdLock("UPDATE forms SET listing_id = $1 WHERE id = $2", [other, form?.id]);
  const joined = setRole(listing, colleague, "WRITER");
  await core.waitForBlocked(1);
  await mover.commit();
  await joined;
  expect(await expectExactScopes([owner.userId, colleague])).toEqual([1, 0]);
});

test("removing a member who is creating forms does not deadlock", { timeout: 180_000 }, async () => {
  // Shorter than deadlock_timeout (1 s), so a deadlock shows up as a lock timeout.
  const shortTimeouts = await core.openProcess({ DATABASE_LOCK_TIMEOUT_MS: "900", DATABASE_POOL_SIZE: "12" });
  await setRole(listing, colleague, "WRITER");
  let isRemoving = true;
  const writers = Array.from({ length: 6 }, async (_, writer) => {
    const { forms } = asUser(shortTimeouts, colleague);
    const outcomes: string[] = [];
    for (let round = 1; isRemoving; round++) {
      const body = fixedStay(listing, { numberOfGuests: writer * 1000 + round });
      const create = forms.create(body).then(
        () => "created",
        ({ serviceCode, cause }) => (cause ? `${cause}` : String(serviceCode)),
      );
      outcomes.push(await create);
    }
    return outcomes;
  });
  const { members } = asOperator(shortTimeouts);
  for (let round = 0; round < scale(8); round++) {
    await members.remove({ listingId: listing, userId: colleague });
    await members.set({ listingId: listing, userId: colleague, role: "WRITER" });
  }
  isRemoving = false;
  const outcomes = new Set((await Promise.all(writers)).flat());
  outcomes.delete("RESOURCE_NOT_FOUND");
  expect([...outcomes]).toEqual(["created"]);
  await expectExactScopes();
});

test("the id of a form, and the user and the listing of a membership cannot change", async () => {
  await addForms(listing, 1);
  for (const [change, message] of [
    ["UPDATE forms SET id = gen_random_uuid() WHERE listing_id = $1", "a form keeps its id"],
    ["UPDATE memberships SET user_id = gen_random_uuid() WHERE listing_id = $1", "keeps its user"],
    ["UPDATE memberships SET listing_id = gen_random_uuid() WHERE listing_id = $1", "keeps its user"],
  ] as const) {
    await expect(sql(change, listing)).rejects.toThrow(message);
  }
  expect(await expectExactScopes([owner.userId, colleague])).toEqual([1, 0]);
});

test.each(["memberships", "forms"])("truncating %s empties scoped_forms", async (table) => {
  await owner.addForm();
  expect((await owner.forms.list({})).items).toHaveLength(1);
  await sql(`TRUNCATE ${table} CASCADE`);
  expect(await sql("SELECT FROM scoped_forms")).toEqual([]);
});
