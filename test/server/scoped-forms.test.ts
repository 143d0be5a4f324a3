import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { ServiceError } from "../../server/errors.js";
import { createTestDatabase } from "../support/database.js";
import {
  asOperator,
  asUser,
  makeForm,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../support/factories.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { scale } from "../support/rounds.js";
import { fixedStay } from "../support/stays.js";

/** Two processes on one database. */
let services: Services;
let second: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "", DATABASE_POOL_SIZE: "12" });
  second = await openTestServices({ APP_SECRETS: "", DATABASE_URL: services.db.url });
});

let owner: string;
let colleague: string;
let listing: string;
let other: string;

beforeEach(async () => {
  [owner, colleague] = [(await makeUser(services)).id, (await makeUser(services)).id];
  listing = (await makeListing(services, owner)).id;
  other = (await makeListing(services, owner)).id;
});

const run = (sql: string, ...values: unknown[]) => services.db.pool.query(sql, values);

const SCOPE = `
  SELECT m.user_id, f.created_at, f.id
  FROM forms f JOIN memberships m ON m.listing_id = f.listing_id WHERE m.role IN ('OWNER', 'WRITER')`;
const STORED = "SELECT user_id, created_at, form_id FROM scoped_forms";

/** Fails unless scoped_forms equals the scopes of all users. Returns how many forms each given user sees. */
async function expectExactScopes(...users: string[]): Promise<number[]> {
  const { rows } = await run(`SELECT
    (SELECT count(*)::int FROM (${SCOPE} EXCEPT ${STORED}) x) AS missing,
    (SELECT count(*)::int FROM (${STORED} EXCEPT ${SCOPE}) x) AS stale`);
  expect(rows).toEqual([{ missing: 0, stale: 0 }]);
  const counts = users.map(
    async (user) => (await asUser(services, user).forms.list({ limit: 100 })).items.length,
  );
  return Promise.all(counts);
}

const addForms = (listingId: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => makeForm(services, owner, listingId)));

test("a form is listed for all owners and writers of its listing, not for readers", async () => {
  const reader = (await makeUser(services)).id;
  await setRole(services, listing, colleague, "WRITER");
  await setRole(services, listing, reader, "READER");
  await addForms(listing, 2);
  await addForms(other, 1);
  expect(await expectExactScopes(owner, colleague, reader)).toEqual([3, 2, 0]);
});

test("a change to or from a role in scope adds or removes all forms of the listing", async () => {
  await addForms(listing, 3);
  const seen: number[] = [];
  for (const role of ["READER", "WRITER", "OWNER", "READER", "OWNER", "NONE"] as const) {
    await setRole(services, listing, colleague, role);
    seen.push(...(await expectExactScopes(colleague)));
  }
  expect(seen).toEqual([0, 3, 3, 0, 3, 0]);
});

test("a form that moves to another listing enters the scope of that listing's writers", async () => {
  await setRole(services, other, colleague, "WRITER");
  const [form] = await addForms(listing, 2);
  expect(await expectExactScopes(owner, colleague)).toEqual([2, 0]);
  await asUser(services, owner).forms.update({ id: form?.id ?? "", ...fixedStay(other) });
  expect(await expectExactScopes(owner, colleague)).toEqual([2, 1]);
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
])("deleting %s removes the forms from every scope", async (_, sql, ofOwner, ofColleague) => {
  await setRole(services, listing, colleague, "WRITER");
  await addForms(listing, 3);
  await addForms(other, 1);
  await run(sql, listing);
  expect(await expectExactScopes(owner, colleague)).toEqual([ofOwner, ofColleague]);
});

describe.each(["read committed", "repeatable read", "serializable"])(
  "with default_transaction_isolation %s",
  (level) => {
    let original: [Services, Services];

    beforeAll(async () => {
      original = [services, second];
      const { url } = await createTestDatabase();
      const database = new URL(url).pathname.slice(1);
      await run(`ALTER DATABASE "${database}" SET default_transaction_isolation TO '${level}'`);
      services = await openTestServices({ APP_SECRETS: "", DATABASE_URL: url, DATABASE_POOL_SIZE: "12" });
      second = await openTestServices({ APP_SECRETS: "", DATABASE_URL: url });
      expect((await run("SHOW default_transaction_isolation")).rows[0]).toEqual({
        default_transaction_isolation: level,
      });
    });
    afterAll(() => {
      [services, second] = original;
    });

    test("scoped_forms stays exact while memberships and forms change concurrently", {
      timeout: 180_000,
    }, async () => {
      const complete = level === "read committed" ? callOnce : retryUnavailable;
      const members = await Promise.all(Array.from({ length: 4 }, async () => (await makeUser(services)).id));
      const forms = await addForms(listing, 4);
      const creating = Array.from({ length: 6 }, async (_, writer) => {
        const caller = asUser(writer % 2 ? services : second, owner).forms;
        for (let round = 1; round <= 10; round++) {
          const body = fixedStay(writer % 3 ? listing : other, { numberOfGuests: writer * 100 + round });
          await complete(() => caller.create(body));
        }
      });
      const moving = forms.map(async ({ id }, mover) => {
        const caller = asUser(mover % 2 ? services : second, owner).forms;
        for (let round = 0; round < scale(8); round++)
          await complete(() => caller.update({ id, ...fixedStay(round % 2 ? listing : other) }));
      });
      const joining = members.map(async (userId, member) => {
        const core = asOperator(member % 2 ? services : second).members;
        for (let round = 0; round < scale(6); round++) {
          for (const listingId of [listing, other]) {
            const role = round % 3 === 1 ? "READER" : "WRITER";
            await complete(() => core.set({ listingId, userId, role }));
            if (round % 3 === 2) await complete(() => core.remove({ listingId, userId }));
          }
        }
      });
      await Promise.all([...creating, ...moving, ...joining]);
      await expectExactScopes();
      const { rows } = await run("SELECT count(*)::int AS n FROM forms WHERE listing_id = ANY($1)", [
        listing,
        other,
      ]);
      expect(rows).toEqual([{ n: 4 + 6 * 10 }]);
    });
  },
);

/** At READ COMMITTED nothing conflicts: writers wait for each other. */
const callOnce = <Result>(call: () => Promise<Result>): Promise<Result> => call();

/** Repeats a call that fails with 503 because of repeated conflicts. */
async function retryUnavailable<Result>(call: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ServiceError && error.status === 503)) throw error;
    }
  }
}

describe("a REPEATABLE READ transaction", () => {
  let older: pg.Client;

  beforeEach(async () => {
    older = new pg.Client({ connectionString: services.db.url });
    await older.connect();
    await addForms(listing, 1);
    await older.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    return () => older.end();
  });

  const INSERT = `INSERT INTO forms (id, public_id, listing_id, status, check_in_date, check_out_date, number_of_guests,
      fingerprint, created_at)
    SELECT gen_random_uuid(), gen_random_uuid()::text, listing_id, status, check_in_date, check_out_date,
      number_of_guests, fingerprint, now() FROM forms WHERE listing_id = $1`;
  const MOVE = "UPDATE forms SET listing_id = $2 WHERE listing_id = $1";

  const changes = {
    began: () => setRole(services, listing, colleague, "WRITER"),
    "changed to reader": () => setRole(services, listing, colleague, "READER"),
    ended: () => setRole(services, listing, colleague, "NONE"),
  };
  const statements = {
    insert: (id: string) => older.query(INSERT, [id]),
    move: (id: string) => older.query(MOVE, [id, other]),
  };

  test.each(
    Object.entries(statements).flatMap(([name, run]) =>
      Object.entries(changes).map(([change, apply]) => [change, name, apply, run] as const),
    ),
  )(
    "gets a serialization failure if a membership %s after its snapshot and it does this with a form: %s",
    async (change, _, apply, run) => {
      if (change !== "began") await setRole(services, listing, colleague, "WRITER");
      await older.query("SELECT FROM forms");
      await apply();
      await expect(run(listing)).rejects.toThrow("could not serialize access");
      await older.query("ROLLBACK");
      await expectExactScopes();
    },
  );

  test("cannot change a membership, because it cannot see forms created since", async () => {
    await setRole(services, listing, colleague, "WRITER");
    await expect(older.query("DELETE FROM memberships WHERE user_id = $1", [colleague])).rejects.toThrow(
      "memberships change at READ COMMITTED only",
    );
    await older.query("ROLLBACK");
    for (const sql of [
      "UPDATE memberships SET role = 'READER' WHERE user_id = $1",
      "INSERT INTO memberships SELECT $1, id, 'OWNER', created_at FROM listings WHERE id = $2",
    ]) {
      await older.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
      const values = sql.includes("$2") ? [owner, (await makeListing(services, colleague)).id] : [colleague];
      await expect(older.query(sql, values)).rejects.toThrow("memberships change at READ COMMITTED only");
      await older.query("ROLLBACK");
    }
  });
});

test("a form that leaves a listing does not enter the scope of a user who joins the listing concurrently", async () => {
  const [form] = await addForms(listing, 1);
  const mover = await holdLock(services, "UPDATE forms SET listing_id = $1 WHERE id = $2", [other, form?.id]);
  const joined = setRole(services, listing, colleague, "WRITER");
  await waitForBlocked(services, 1);
  await mover.commit();
  await joined;
  expect(await expectExactScopes(owner, colleague)).toEqual([1, 0]);
});

test("the id of a form cannot change", async () => {
  await addForms(listing, 1);
  await expect(run("UPDATE forms SET id = gen_random_uuid() WHERE listing_id = $1", listing)).rejects.toThrow(
    "a form keeps its id",
  );
});

test("removing a member who is creating forms does not deadlock", { timeout: 180_000 }, async () => {
  // Shorter than deadlock_timeout (1 s), so a deadlock shows up as a lock timeout.
  const shortTimeouts = await openTestServices({
    APP_SECRETS: "",
    DATABASE_URL: services.db.url,
    DATABASE_LOCK_TIMEOUT_MS: "900",
    DATABASE_POOL_SIZE: "12",
  });
  await setRole(services, listing, colleague, "WRITER");
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

test("the user and the listing of a membership cannot change", async () => {
  await addForms(listing, 1);
  const change = (column: string, value: string) =>
    run(
      `UPDATE memberships SET ${column} = $1 WHERE listing_id = $2 AND user_id = $3`,
      value,
      listing,
      owner,
    );
  await expect(change("user_id", colleague)).rejects.toThrow("keeps its user");
  await expect(change("listing_id", other)).rejects.toThrow("keeps its user");
  expect(await expectExactScopes(owner, colleague)).toEqual([1, 0]);
});

test.each(["memberships", "forms"])("truncating %s empties scoped_forms", async (table) => {
  const own = await openTestServices();
  const user = (await makeUser(own)).id;
  await makeForm(own, user, (await makeListing(own, user)).id);
  const list = async () => (await asUser(own, user).forms.list({})).items.length;
  expect(await list()).toBe(1);
  await own.db.pool.query(`TRUNCATE ${table} CASCADE`);
  expect(await list()).toBe(0);
  expect((await own.db.pool.query("SELECT FROM scoped_forms")).rowCount).toBe(0);
});
