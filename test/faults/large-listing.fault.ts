import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { encodeCursor } from "../../server/paging.js";
import { asOperator, asUser, makeForm, makeListing, makeUser, openTestServices } from "../factories.js";
import { runCli } from "../harness.js";
import { formIdsInScope } from "../server/bulk.js";

const FORMS = 200_000;
const SLOWEST_MS = 1_000;

/** Far less than it takes to scope so many forms: a slower machine, or a larger listing, with the default of 1.8 s. */
const SHORT_TIMEOUTS = {
  DATABASE_CONNECT_TIMEOUT_MS: "2300",
  DATABASE_STATEMENT_TIMEOUT_MS: "500",
  DATABASE_LOCK_TIMEOUT_MS: "400",
};
const DEFAULT_TIMEOUTS = {
  DATABASE_CONNECT_TIMEOUT_MS: "2300",
  DATABASE_STATEMENT_TIMEOUT_MS: "1800",
  DATABASE_LOCK_TIMEOUT_MS: "1700",
};

/** Without a limit that matters, to fill the database with. */
let filler: Services;
/** The process that changes the members. */
let services: Services;
/** Another process: its requests share no connection with the change of members. */
let busy: Services;
let ownerId: string;
let listingId: string;
let memberId: string;

beforeAll(async () => {
  filler = await openTestServices({ APP_SECRETS: "", DATABASE_STATEMENT_TIMEOUT_MS: "120000" });
  const env = { APP_SECRETS: "", DATABASE_URL: filler.db.url };
  services = await openTestServices({ ...env, ...SHORT_TIMEOUTS });
  busy = await openTestServices({ ...env, ...DEFAULT_TIMEOUTS });
  ownerId = (await makeUser(filler)).id;
  memberId = (await makeUser(filler)).id;
  listingId = (await makeListing(filler, ownerId)).id;
  await filler.db.pool.query(
    `INSERT INTO forms (public_id, listing_id, fingerprint, created_at)
     SELECT gen_random_uuid(), $1, '\\x00', now() - i / 2 * interval '1 s' FROM generate_series(1, $2::int) i`,
    [listingId, FORMS],
  );
  await filler.db.pool.query("ANALYZE forms");
});

/** The forms that a list would read for the user, by SQL. */
async function countScoped(userId: string): Promise<number> {
  const { rows } = await filler.db.pool.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM scoped_forms WHERE user_id = $1",
    [userId],
  );
  return rows[0]?.n ?? 0;
}

/** Does `work` while another holder creates on a listing of their own and the owner reads the large one. */
async function besideOthers<Result>(work: () => Promise<Result>): Promise<Result> {
  const { id: userId } = await makeUser(busy);
  const own = await makeListing(busy, userId);
  const requests = [
    () => makeForm(busy, userId, own.id),
    () => asUser(busy, ownerId).forms.list({ limit: 10, listingId }),
  ];
  let isOver = false;
  const durations: number[] = [];
  const others = Promise.all(
    requests.map(async (request) => {
      while (!isOver) {
        const began = performance.now();
        await request();
        durations.push(performance.now() - began);
        await sleep(10);
      }
    }),
  );
  const result = await work().finally(() => {
    isOver = true;
  });
  await others;
  expect(durations.length).toBeGreaterThan(2);
  expect(Math.max(...durations)).toBeLessThan(SLOWEST_MS);
  return result;
}

/** The cursor after the form at that place in the list. */
async function cursorAfter(place: number): Promise<string> {
  const { rows } = await filler.db.pool.query<{ id: string; at: number }>(
    `SELECT id, (extract(epoch FROM created_at) * 1000)::float8 AS at FROM forms WHERE listing_id = $1
     ORDER BY created_at, id OFFSET $2 LIMIT 1`,
    [listingId, place - 1],
  );
  const { id = "", at = 0 } = rows[0] ?? {};
  return encodeCursor(services.keyring.cursor, { list: "forms" }, { createdAt: Math.round(at), id });
}

describe(`a listing of ${FORMS} forms, more than are scoped within the statement timeout`, () => {
  test("members set gives the member all its forms; other requests are not delayed", async () => {
    const role = "WRITER";
    const membership = await besideOthers(() =>
      asOperator(services).members.set({ listingId, userId: memberId, role }),
    );
    expect(membership).toEqual({ listingId, userId: memberId, role });
    expect(await countScoped(memberId)).toBe(FORMS);
    const [first, last, whole] = [
      await asUser(services, memberId).forms.list({ limit: 100 }),
      await asUser(services, memberId).forms.list({ limit: 100, cursor: await cursorAfter(FORMS - 100) }),
      await formIdsInScope(filler, memberId),
    ];
    expect(whole).toHaveLength(FORMS);
    expect(first.items.map(({ id }) => id)).toEqual(whole.slice(0, 100));
    expect(first.nextCursor).not.toBeNull();
    expect(last.items.map(({ id }) => id)).toEqual(whole.slice(-100));
    expect(last.nextCursor).toBeNull();
  });

  test("the command members remove takes all of them away; other requests are not delayed", async () => {
    // Nothing to do where the test above has passed.
    await filler.db.pool.query(
      `INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
       SELECT $1, id, created_at, 'WRITER' FROM listings WHERE id = $2 ON CONFLICT DO NOTHING`,
      [memberId, listingId],
    );
    expect(await countScoped(memberId)).toBe(FORMS);
    const args = ["members", "remove", "--listing", listingId, "--user", memberId];
    const { code, stderr } = await besideOthers(() =>
      runCli(args, { env: { ...SHORT_TIMEOUTS, DATABASE_URL: filler.db.url } }),
    );
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(await countScoped(memberId)).toBe(0);
    const empty = { items: [], nextCursor: null };
    expect(await asUser(services, memberId).forms.list({})).toEqual(empty);
    expect(await countScoped(ownerId)).toBe(FORMS);
  });
});
