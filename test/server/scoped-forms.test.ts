import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { ServiceError } from "../../server/errors.js";
import {
  asOperator,
  asUser,
  fixedStay,
  makeForm,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../factories.js";
import { createTestDatabase } from "../harness.js";

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
const KEPT = "SELECT user_id, created_at, form_id FROM scoped_forms";

/** What is kept is exactly what memberships and forms say; gives how many forms the users see. */
async function expectExact(...users: string[]): Promise<number[]> {
  const { rows } = await run(`SELECT
    (SELECT count(*)::int FROM (${SCOPE} EXCEPT ${KEPT}) x) AS missing,
    (SELECT count(*)::int FROM (${KEPT} EXCEPT ${SCOPE}) x) AS stale`);
  expect(rows).toEqual([{ missing: 0, stale: 0 }]);
  const seen = users.map(
    async (user) => (await asUser(services, user).forms.list({ limit: 100 })).items.length,
  );
  return Promise.all(seen);
}

const add = (to: string, count: number) =>
  Promise.all(Array.from({ length: count }, () => makeForm(services, owner, to)));

test("a form is listed for all owners and writers of its listing, not for readers", async () => {
  const reader = (await makeUser(services)).id;
  await setRole(services, listing, colleague, "WRITER");
  await setRole(services, listing, reader, "READER");
  await add(listing, 2);
  await add(other, 1);
  expect(await expectExact(owner, colleague, reader)).toEqual([3, 2, 0]);
});

test("a membership brings the forms that are there, a role in scope keeps them, its end takes them", async () => {
  await add(listing, 3);
  const seen: number[] = [];
  for (const role of ["READER", "WRITER", "OWNER", "READER", "OWNER"] as const) {
    await setRole(services, listing, colleague, role);
    seen.push(...(await expectExact(colleague)));
  }
  await asOperator(services).members.remove({ listingId: listing, userId: colleague });
  expect([...seen, ...(await expectExact(colleague))]).toEqual([0, 3, 3, 0, 3, 0]);
});

test("a form that moves goes from scope to scope", async () => {
  await setRole(services, other, colleague, "WRITER");
  const [form] = await add(listing, 2);
  expect(await expectExact(owner, colleague)).toEqual([2, 0]);
  await asUser(services, owner).forms.update({ id: form?.id ?? "", ...fixedStay(other) });
  expect(await expectExact(owner, colleague)).toEqual([2, 1]);
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
])("what is deleted leaves every scope: %s", async (_, sql, ofOwner, ofColleague) => {
  await setRole(services, listing, colleague, "WRITER");
  await add(listing, 3);
  await add(other, 1);
  await run(sql, listing);
  expect(await expectExact(owner, colleague)).toEqual([ofOwner, ofColleague]);
});

describe.each(["read committed", "repeatable read", "serializable"])(
  "in a database that is %s by default",
  (level) => {
    let before: [Services, Services];

    beforeAll(async () => {
      before = [services, second];
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
      [services, second] = before;
    });

    test("nothing is lost or left over where memberships and forms change at the same time", {
      timeout: 180_000,
    }, async () => {
      const done = level === "read committed" ? atOnce : untilDone;
      const members = await Promise.all(Array.from({ length: 4 }, async () => (await makeUser(services)).id));
      const forms = await add(listing, 4);
      const creating = Array.from({ length: 6 }, async (_, writer) => {
        const caller = asUser(writer % 2 ? services : second, owner).forms;
        for (let round = 1; round <= 25; round++) {
          const body = fixedStay(writer % 3 ? listing : other, { numberOfGuests: writer * 100 + round });
          await done(() => caller.create(body));
        }
      });
      const moving = forms.map(async ({ id }, mover) => {
        const caller = asUser(mover % 2 ? services : second, owner).forms;
        for (let round = 0; round < 15; round++)
          await done(() => caller.update({ id, ...fixedStay(round % 2 ? listing : other) }));
      });
      const joining = members.map(async (userId, member) => {
        const core = asOperator(member % 2 ? services : second).members;
        for (let round = 0; round < 12; round++) {
          for (const listingId of [listing, other]) {
            const role = round % 3 === 1 ? "READER" : "WRITER";
            await done(() => core.set({ listingId, userId, role }));
            if (round % 3 === 2) await done(() => core.remove({ listingId, userId }));
          }
        }
      });
      await Promise.all([...creating, ...moving, ...joining]);
      await expectExact();
      const { rows } = await run("SELECT count(*)::int AS n FROM forms WHERE listing_id = ANY($1)", [
        listing,
        other,
      ]);
      expect(rows).toEqual([{ n: 154 }]);
    });
  },
);

/** Nothing conflicts where each statement sees what is committed: one waits for the other. */
const atOnce = <Result>(ask: () => Promise<Result>): Promise<Result> => ask();

/** What conflicts time and again is a 503 at last, and succeeds when it is asked for again. */
async function untilDone<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ServiceError && error.status === 503)) throw error;
    }
  }
}

describe("a transaction that sees what was", () => {
  let older: pg.Client;

  beforeEach(async () => {
    older = new pg.Client({ connectionString: services.db.url });
    await older.connect();
    await add(listing, 1);
    await older.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    return () => older.end();
  });

  const INSERT = `INSERT INTO forms (id, public_id, listing_id, status, check_in_date, check_out_date, number_of_guests,
      fingerprint, created_at)
    SELECT gen_random_uuid(), gen_random_uuid()::text, listing_id, status, check_in_date, check_out_date,
      number_of_guests, fingerprint, now() FROM forms WHERE listing_id = $1`;
  const MOVE = "UPDATE forms SET listing_id = $2 WHERE listing_id = $1";

  const roles = {
    began: async () => setRole(services, listing, colleague, "WRITER"),
    "was given up": async () => setRole(services, listing, colleague, "READER"),
    ended: async () => asOperator(services).members.remove({ listingId: listing, userId: colleague }),
  };

  test.each([
    ["began", "insert", INSERT],
    ["was given up", "insert", INSERT],
    ["ended", "insert", INSERT],
    ["began", "move", MOVE],
    ["was given up", "move", MOVE],
    ["ended", "move", MOVE],
  ] as const)("of a membership that %s since cannot %s a form", async (change, _, sql) => {
    if (change !== "began") await setRole(services, listing, colleague, "WRITER");
    await older.query("SELECT FROM forms");
    await roles[change]();
    const values = sql === MOVE ? [listing, other] : [listing];
    await expect(older.query(sql, values)).rejects.toThrow("could not serialize access");
    await older.query("ROLLBACK");
    await expectExact();
  });

  test("cannot change a membership, for it would not see the forms that are new", async () => {
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

test("a form that leaves a listing is not brought into the scope of who joins that listing meanwhile", async () => {
  const [form] = await add(listing, 1);
  const mover = new pg.Client({ connectionString: services.db.url });
  await mover.connect();
  await mover.query("BEGIN");
  await mover.query("UPDATE forms SET listing_id = $1 WHERE id = $2", [other, form?.id]);
  const joined = setRole(services, listing, colleague, "WRITER");
  await expect
    .poll(
      async () =>
        (
          await run(
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
          )
        ).rowCount,
    )
    .toBe(1);
  await mover.query("COMMIT");
  await mover.end();
  await joined;
  expect(await expectExact(owner, colleague)).toEqual([1, 0]);
});

test("a form keeps its id", async () => {
  await add(listing, 1);
  await expect(run("UPDATE forms SET id = gen_random_uuid() WHERE listing_id = $1", listing)).rejects.toThrow(
    "a form keeps its id",
  );
});

test("a member who writes is removed without a deadlock", { timeout: 180_000 }, async () => {
  // Postgres looks for a deadlock after a second: whoever is in one gives up before.
  const hasty = await openTestServices({
    APP_SECRETS: "",
    DATABASE_URL: services.db.url,
    DATABASE_LOCK_TIMEOUT_MS: "900",
    DATABASE_POOL_SIZE: "12",
  });
  await setRole(services, listing, colleague, "WRITER");
  let removing = true;
  const writers = Array.from({ length: 6 }, async (_, writer) => {
    const { forms } = asUser(hasty, colleague);
    const outcomes: string[] = [];
    for (let round = 1; removing; round++) {
      const body = fixedStay(listing, { numberOfGuests: writer * 1000 + round });
      const create = forms.create(body).then(
        () => "created",
        ({ serviceCode, cause }) => (cause ? `${cause}` : String(serviceCode)),
      );
      outcomes.push(await create);
    }
    return outcomes;
  });
  const { members } = asOperator(hasty);
  for (let round = 0; round < 15; round++) {
    await members.remove({ listingId: listing, userId: colleague });
    await members.set({ listingId: listing, userId: colleague, role: "WRITER" });
  }
  removing = false;
  const outcomes = new Set((await Promise.all(writers)).flat());
  // Who was removed again and again while it waited has lost every race.
  for (const fine of [
    "RESOURCE_NOT_FOUND",
    "Error: the listing's rules or the scope have changed, or an equal create was faster",
  ]) {
    outcomes.delete(fine);
  }
  expect([...outcomes]).toEqual(["created"]);
  await expectExact();
});

test("a membership cannot become another user's or another listing's", async () => {
  await add(listing, 1);
  const change = (column: string, value: string) =>
    run(
      `UPDATE memberships SET ${column} = $1 WHERE listing_id = $2 AND user_id = $3`,
      value,
      listing,
      owner,
    );
  await expect(change("user_id", colleague)).rejects.toThrow("keeps its user");
  await expect(change("listing_id", other)).rejects.toThrow("keeps its user");
  expect(await expectExact(owner, colleague)).toEqual([1, 0]);
});

test.each(["memberships", "forms"])("nothing is left over of %s that were truncated", async (table) => {
  const own = await openTestServices();
  const user = (await makeUser(own)).id;
  await makeForm(own, user, (await makeListing(own, user)).id);
  const list = async () => (await asUser(own, user).forms.list({})).items.length;
  expect(await list()).toBe(1);
  await own.db.pool.query(`TRUNCATE ${table} CASCADE`);
  expect(await list()).toBe(0);
  expect((await own.db.pool.query("SELECT FROM scoped_forms")).rowCount).toBe(0);
});
