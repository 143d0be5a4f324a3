import { beforeAll, describe, expect, test } from "vitest";
import type { Sql } from "../../server/database/db.js";
import type { ListParameters } from "../../server/forms/list-builder.js";
import { OLDEST } from "../../server/forms/list-statements.js";
import type { FormFilters } from "../../server/forms/schema.js";
import { selectOldestForms } from "../../server/forms/select-list.js";
import { insertListingsWithForms, listingIdsInScope, makeUserWithForms, readAllPages } from "../support/bulk.js";
import { asOperator, asUser, catchErrorCode, catchRejectedFields, openTestServices } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

type ListInput = Parameters<ReturnType<typeof asUser>["forms"]["list"]>[0];
type Filters = Omit<ListInput, "limit" | "cursor">;

const services = await openTestServices();
const { pool } = services.db;
/** A small scope is read whole, a large one searched. */
const users = { small: "", large: "" };
/** Of each user. */
const listings: Record<string, string> = {};

beforeAll(async () => {
  users.small = await makeUserWithForms(services, { listings: 6, formsPerListing: 60, distinctTimes: 2000 });
  users.large = await makeUserWithForms(services, { listings: 400, formsPerListing: 15, distinctTimes: 2000 });
  for (const userId of Object.values(users)) {
    await insertListingsWithForms(services, userId, {
      ...{ listings: 2, formsPerListing: 60, distinctTimes: 2000, role: "READER" },
    });
    listings[userId] = (await listingIdsInScope(services, userId))[0] ?? "";
  }
  // Every column is null on some forms. Both users have forms with equal values.
  await pool.query(`
    UPDATE forms f SET
      status = (ARRAY['SENT', 'COMPLETED', 'CHECKED_OUT', 'NOT_PUBLIC'])[1 + n % 4],
      external_id = CASE WHEN n % 5 > 1 THEN 'booking-' || n % 5 WHEN n % 50 = 0 THEN 'rare' END,
      updated_at = CASE WHEN n % 3 > 0 THEN created_at + n % 100 * interval '1 day' END,
      check_in_date = CASE WHEN n % 7 > 0 THEN created_at + n % 60 * interval '1 day' END
    FROM (SELECT id, abs(hashtext(id::text)) % 10000 AS n FROM forms) numbered WHERE numbered.id = f.id`);
  await pool.query("ANALYZE");
});

/** The ids of the forms that match, by a query simple enough to be trusted. */
async function expectedIds(userId: string, filters: Filters): Promise<string[]> {
  const { rows } = await pool.query(
    `SELECT f.*, f.id, coalesce(updated_at, created_at) AS changed_at FROM forms f
     WHERE listing_id IN (SELECT listing_id FROM memberships WHERE user_id = $1 AND role <> 'READER')
     ORDER BY created_at, id`,
    [userId],
  );
  const { listingId, status, externalId, updatedSince, checkInFrom, checkInTo } = filters;
  const time = (text: string | undefined) => (text === undefined ? Number.NaN : Date.parse(text));
  return rows
    .filter((row) => listingId === undefined || row.listing_id === listingId)
    .filter((row) => status === undefined || row.status === status)
    .filter((row) => externalId === undefined || row.external_id === externalId)
    .filter((row) => !(row.changed_at < time(updatedSince)))
    .filter((row) => checkInFrom === undefined || (row.check_in_date && row.check_in_date >= time(checkInFrom)))
    .filter((row) => checkInTo === undefined || (row.check_in_date && row.check_in_date < time(checkInTo)))
    .map(({ id }) => id);
}

const FILTERS: Filters[] = [
  { status: "SENT" },
  { status: "REJECTED" },
  { externalId: "booking-3" },
  { externalId: "rare" },
  { externalId: "Rare" },
  { updatedSince: "2026-02-20T00:00:00Z" },
  { updatedSince: "2026-04-09T00:00:00+02:00" },
  { updatedSince: "2020-01-01T00:00:00Z" },
  { checkInFrom: "2026-02-01T00:00:00Z", checkInTo: "2026-02-02T00:00:00Z" },
  { checkInFrom: "2026-02-20T00:00:00Z" },
  { checkInTo: "2026-01-05T00:00:00Z" },
  { checkInTo: "2099-01-01T00:00:00Z" },
  { status: "SENT", checkInFrom: "2026-02-01T00:00:00Z", checkInTo: "2026-02-03T00:00:00Z" },
  { status: "COMPLETED", externalId: "booking-2", updatedSince: "2026-02-10T00:00:00Z" },
  { externalId: "rare", updatedSince: "2026-01-20T00:00:00Z", checkInTo: "2026-02-10T00:00:00Z" },
  { status: "CANCELLED", externalId: "rare" },
];

describe.each(["small", "large"] as const)("of a %s scope", (scope) => {
  test.each(FILTERS)(
    "all pages together are the forms that match %j, in order, also on one listing",
    async (filters) => {
      const userId = users[scope];
      for (const filter of [filters, { ...filters, listingId: listings[userId] ?? "" }]) {
        const expected = await expectedIds(userId, filter);
        for (const limit of scope === "small" ? [7, 100] : [100]) {
          expect(
            await readAllPages(limit, (page) => asUser(services, userId).forms.list({ ...filter, ...page })),
          ).toEqual(expected);
        }
      }
    },
  );
});

test("the filters are chosen so that most match some forms and not others", async () => {
  const counts = await Promise.all(FILTERS.map(async (filters) => (await expectedIds(users.large, filters)).length));
  expect(counts.filter((count) => count > 0 && count < 6000).length).toBeGreaterThan(10);
});

/** The position after so many forms. */
async function positionAfter(ids: string[], skipped: number): Promise<[createdAt: string, id: string]> {
  if (skipped === 0) return ["-infinity", "00000000-0000-0000-0000-000000000000"];
  const { rows } = await pool.query("SELECT created_at, id FROM forms WHERE id = $1", [ids[skipped - 1]]);
  return [rows[0].created_at.toISOString(), rows[0].id];
}

const TAKE = 20;

/** At the start, after some, and so that the last page is not full. */
const placesIn = (expected: string[]) =>
  [0, 3, expected.length - 5].filter((count) => count >= 0 && count <= expected.length);

/** The sources that find every form that matches. The others end where they have searched enough. */
const SOURCES = [
  ["byListing", "complete", undefined],
  ["withStatus", "complete", "status"],
  ["withExternalId", "complete", "externalId"],
  ["updatedSince", "complete", "updatedSince"],
  ["checkingIn", "complete", "checkInFrom"],
  ["checkingIn", "complete", "checkInTo"],
  ["amongNext", "its beginning", undefined],
  ["amongStatus", "its beginning", "status"],
] as const;

test.each(SOURCES)(
  "the source %s returns the page, %s, with every filter, wherever it begins",
  async (name, kind, needed) => {
    const ofSource = (filters: Filters) =>
      name === "amongStatus" ? Object.keys(filters).join() === "status" : needed === undefined || needed in filters;
    let found = 0;
    for (const filters of FILTERS.filter(ofSource)) {
      const expected = await expectedIds(users.large, filters);
      for (const skipped of placesIn(expected)) {
        const [afterCreatedAt, afterId] = await positionAfter(expected, skipped);
        const parameters: ListParameters = {
          ...{
            userId: users.large,
            afterCreatedAt,
            afterId,
            take: TAKE,
            settleSeconds: 5,
            all: "1000000000",
            ...filters,
          },
        };
        const ids = (await OLDEST[name].read(services.db as Sql, parameters)).map(({ id }) => id);
        const page = expected.slice(skipped, skipped + TAKE);
        expect(ids, JSON.stringify(filters)).toEqual(kind === "complete" ? page : page.slice(0, ids.length));
        found += ids.length;
      }
    }
    expect(found).toBeGreaterThan(TAKE);
  },
);

test("whatever is few or many, the page is the same", async () => {
  const read = new Set<string>();
  const sql: Sql = {
    query: (name, text, values) => {
      read.add(name);
      return services.db.query(name, text, values);
    },
  };
  const of = (mostInScope: number, mostWithValue: number) => ({ mostInScope, mostWithValue });
  const few = [of(0, 0), of(0, 30), of(10_000, 0)];
  const many = [of(0, 0), of(0, 100_000), of(10_000, 0)];
  const scope = { userId: users.large, settleSeconds: 5 };
  for (const filters of FILTERS) {
    for (const listingId of [undefined, listings[users.large]]) {
      const expected = await expectedIds(users.large, { ...filters, ...(listingId && { listingId }) });
      for (const skipped of placesIn(expected)) {
        const position = await positionAfter(expected, skipped);
        for (const limits of few.flatMap((first) => many.map((last) => ({ few: first, many: last })))) {
          const rows = await selectOldestForms(
            sql,
            [...position, TAKE],
            { ...scope, listingId },
            filters as FormFilters,
            limits,
          );
          expect(
            rows.map(({ id }) => id),
            JSON.stringify({ filters, limits }),
          ).toEqual(expected.slice(skipped, skipped + TAKE));
        }
      }
    }
  }
  expect([...read].sort()).toEqual(
    [
      ...[
        "few-forms",
        "forms-among-next",
        "forms-among-status",
        "forms-by-listing",
        "forms-checking-in",
        "forms-on-listing",
      ],
      ...["forms-updated-since", "forms-with-external-id", "forms-with-status"],
    ].sort(),
  );
});

const ana = () => asUser(services, users.small).forms;

test.each([
  [{ status: "UNKNOWN" }, ["status"]],
  [{ status: "NOT_PUBLIC" }, ["status"]],
  [{ status: "sent" }, ["status"]],
  [{ status: "" }, ["status"]],
  [{ status: ["SENT", "COMPLETED"] }, ["status"]],
  [{ externalId: "" }, ["externalId"]],
  [{ externalId: "  " }, ["externalId"]],
  [{ externalId: "x".repeat(256) }, ["externalId"]],
  [{ externalId: "a\u0000b" }, ["externalId"]],
  [{ updatedSince: "yesterday" }, ["updatedSince"]],
  [{ updatedSince: "2027-07-01" }, ["updatedSince"]],
  [{ updatedSince: new Date() }, ["updatedSince"]],
  [{ checkInFrom: "2027-02-31T00:00:00Z", checkInTo: 5 }, ["checkInFrom", "checkInTo"]],
  [{ checkInFrom: "2027-07-01T00:00:00Z", checkInTo: "2027-07-01T02:00:00+02:00" }, ["checkInTo"]],
  [{ status: "x", checkInFrom: "2027-07-02T00:00:00Z", checkInTo: "2027-07-01T00:00:00Z" }, ["status", "checkInTo"]],
  [{ limit: "x", status: "x" }, ["limit", "status"]],
  [{ updatedBefore: "2027-07-01T00:00:00Z" }, ["updatedBefore"]],
])("%j is rejected at %j", async (input, fields) => {
  expect(await catchRejectedFields(ana().list(input as ListInput))).toEqual(fields);
});

test("a + that arrived as a space is explained", async () => {
  for (const text of ["2027-07-01T15:00:00 02:00", "2027-07-01T15:00 0200"]) {
    const error = ana().list({ updatedSince: text });
    await expect(error).rejects.toMatchObject({
      errors: [{ field: "updatedSince", issue: expect.stringContaining("send its + as %2B") }],
    });
  }
});

test("a cursor belongs to its filters, however they are written", async () => {
  const filters = { status: "SENT", updatedSince: "2026-01-01T02:00:00+02:00" } as const;
  const { nextCursor } = await ana().list({ ...filters, limit: 1 });
  const cursor = nextCursor ?? "";
  const same = await ana().list({ status: "SENT", updatedSince: "2026-01-01T00:00Z", limit: 1, cursor });
  expect(same.items).toHaveLength(1);
  const others: Filters[] = [
    {},
    { status: "SENT" },
    { ...filters, status: "COMPLETED" },
    { ...filters, externalId: "rare" },
    { ...filters, updatedSince: "2026-01-01T00:00:00Z", checkInFrom: "2026-01-01T00:00:00Z" },
    { ...filters, listingId: listings[users.small] ?? "" },
  ];
  for (const other of others) expect(await catchErrorCode(ana().list({ ...other, cursor }))).toBe("INVALID_CURSOR");
  const { nextCursor: plain } = await ana().list({ limit: 1 });
  expect(await catchErrorCode(ana().list({ ...filters, cursor: plain ?? "" }))).toBe("INVALID_CURSOR");
});

test("a form is found by its external id as sent, and by its changes from the moment they are made", async () => {
  const [listingId = ""] = await listingIdsInScope(services, users.small);
  const form = await ana().create(fixedStay(listingId, { externalId: "  pms/4711?ü " }));
  const ids = async (filters: Filters) => (await ana().list(filters)).items.map(({ id }) => id);
  expect(await ids({ externalId: "pms/4711?ü" })).toEqual([form.id]);
  expect(await ids({ updatedSince: form.updatedAt })).toEqual([form.id]);
  await asOperator(services).forms.setStatus({ id: form.id, status: "COMPLETED" });
  const changed = await ana().get({ id: form.id });
  expect(await ids({ updatedSince: changed.updatedAt, status: "COMPLETED" })).toEqual([form.id]);
  expect(await ids({ updatedSince: new Date(Date.parse(changed.updatedAt) + 1).toISOString() })).toEqual([]);
  expect(await ids({ externalId: "pms/4711?ü", status: "SENT" })).toEqual([]);
});
