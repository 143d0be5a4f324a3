import { GRANTS_SCOPE } from "../access/scope.js";
import type { Sql, SqlValue } from "../database/db.js";
import { NONE_IN_FLIGHT } from "../database/in-flight-creates.js";
import { ON_PRIMARY } from "../database/primary.js";
import { FORM_COLUMNS, type FormRow, UPDATED_AT } from "./queries.js";

// The statements of the lists of forms: those in a user's scope, oldest first, and all, newest first. Each has a source of forms in
// the order of the list, which reads only indexes until it knows the page. `select-list.ts` chooses the source. What each costs is
// in gateway/docs/performance.md.

const TYPES = {
  userId: "uuid",
  afterCreatedAt: "timestamptz",
  afterId: "uuid",
  take: "int",
  /** LIST_SETTLE_SECONDS. */
  settleSeconds: "int",
  listingId: "uuid",
  status: "text",
  externalId: "text",
  updatedSince: "timestamptz",
  checkInFrom: "timestamptz",
  checkInTo: "timestamptz",
  checkInDay: "date",
  /** Lower-case names of the time zones that the database knows. */
  timeZones: "text[]",
  /** More rows than a table has. */
  all: "bigint",
} as const;

type ParameterName = keyof typeof TYPES;

export type ListParameters = { [Name in ParameterName]?: SqlValue };

/** What a source is built with. */
interface Builder {
  /** Placeholder of a parameter. */
  $: (name: ParameterName) => string;
  /** Condition: after the cursor. */
  after: (createdAt: string, id: string) => string;
  /** `ORDER BY` these. */
  sorted: (createdAt: string, id: string) => string;
}

/** SQL that selects `created_at` and `id` of forms. */
type Source = (builder: Builder) => string;

export interface ListStatement<Row extends FormRow> {
  read(sql: Sql, parameters: ListParameters): Promise<Row[]>;
}

function prepare<Row extends FormRow>(
  name: string,
  { comparison, direction }: { comparison: ">" | "<"; direction: "" | " DESC" },
  columns: ($: Builder["$"]) => string,
  source: Source,
): ListStatement<Row> {
  const names: ParameterName[] = [];
  const $ = (parameter: ParameterName) => {
    if (!names.includes(parameter)) names.push(parameter);
    return `$${names.indexOf(parameter) + 1}::${TYPES[parameter]}`;
  };
  const after = (createdAt: string, id: string) =>
    `(${createdAt}, ${id}) ${comparison} (${$("afterCreatedAt")}, ${$("afterId")})`;
  const sorted = (createdAt: string, id: string) => `ORDER BY ${createdAt}${direction}, ${id}${direction}`;
  // LATERAL with LIMIT looks the forms of the page up one by one; a plain join could read them all.
  const text = `
  SELECT ${columns($)}
  FROM (${source({ $, after, sorted })}
    ${sorted("created_at", "id")} LIMIT ${$("take")}
  ) page
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
  WHERE ${ON_PRIMARY}
  ${sorted("page.created_at", "page.id")}`;
  return {
    read: (sql, parameters) =>
      sql.query<Row>(
        name,
        text,
        names.map((parameter) => parameters[parameter] ?? null),
      ),
  };
}

// Not coalesce(column = $, true): it would let pass forms whose column is null.
const ifGiven = ({ $ }: Builder, parameter: ParameterName, comparison: string) =>
  `(${$(parameter)} IS NULL OR ${comparison} ${$(parameter)})`;

/** Condition: form `f` matches the filters. */
const matches = (builder: Builder) => `${ifGiven(builder, "status", "f.status =")}
        AND ${ifGiven(builder, "externalId", "f.external_id =")}
        AND ${ifGiven(builder, "updatedSince", `${UPDATED_AT} >=`)}
        AND ${ifGiven(builder, "checkInFrom", "f.check_in_date >=")}
        AND ${ifGiven(builder, "checkInTo", "f.check_in_date <")}`;

const listingsInScope = ({ $ }: Builder) =>
  `SELECT m.listing_id FROM memberships m WHERE m.user_id = ${$("userId")} AND ${GRANTS_SCOPE}`;

/** All forms in scope: one index range of `scoped_forms`, which triggers keep in sync with `memberships`. */
const inScope: Source = ({ $, after }) => `
    SELECT s.created_at, s.form_id AS id FROM scoped_forms s
    WHERE s.user_id = ${$("userId")} AND ${after("s.created_at", "s.form_id")}`;

const SEARCHED = 2_000;

/** Of the next forms in scope, those that match. An incomplete page says nothing about the forms after them. */
const amongNext: Source = (builder) => `
    SELECT s.created_at, s.id
    FROM (${inScope(builder)} ${builder.sorted("s.created_at", "s.form_id")} LIMIT ${SEARCHED}) s
    CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = s.id LIMIT 1) f
    WHERE ${matches(builder)}`;

/**
 * A range of an index, in its order. Not OFFSET 0: without pages that VACUUM has marked, the planner would read the whole range and
 * sort it, or even the whole table. With a limit that it does not know, it expects to read a tenth, and keeps to the index.
 */
const range = ({ $ }: Builder, select: string, order: string) => `(${select} ${order} LIMIT ${$("all")})`;

/** The first page of each of these listings, from an index that has all that is compared. With OFFSET 0 they are read first. */
const onListings =
  (listings: (builder: Builder) => string): Source =>
  (builder) => {
    const forms = `SELECT f.created_at, f.id, f.status, f.external_id, f.updated_at, f.check_in_date FROM forms f
        WHERE f.listing_id = listing.listing_id AND ${builder.after("f.created_at", "f.id")}`;
    const order = builder.sorted("f.created_at", "f.id");
    return `
    SELECT first.created_at, first.id
    FROM (${listings(builder)} OFFSET 0) listing
    CROSS JOIN LATERAL (
      SELECT f.created_at, f.id FROM ${range(builder, forms, order)} f
      WHERE ${matches(builder)}
      ${order} LIMIT ${builder.$("take")}
    ) first`;
  };

/**
 * All forms with a rare value, whosever they are, and of these the ones in scope. With IS TRUE the listings are hashed: a join could
 * compare each with each, because the planner expects one row that matches.
 */
const withRare =
  (value: (builder: Builder) => string, order: string): Source =>
  (builder) =>
    `
    SELECT f.created_at, f.id
    FROM ${range(builder, `SELECT * FROM forms f WHERE ${value(builder)}`, `ORDER BY ${order}`)} f
    WHERE ${builder.after("f.created_at", "f.id")}
        AND ${ifGiven(builder, "listingId", "f.listing_id =")}
        AND ${matches(builder)}
        AND (f.listing_id IN (${listingsInScope(builder)})) IS TRUE`;

/** Of the next forms in the status, those in scope. */
const amongStatus: Source = (builder) => {
  const { $, after, sorted } = builder;
  return `
    SELECT f.created_at, f.id
    FROM (
      SELECT f.created_at, f.id FROM forms f WHERE f.status = ${$("status")} AND ${after("f.created_at", "f.id")}
      ${sorted("f.created_at", "f.id")} LIMIT ${SEARCHED}
    ) f
    CROSS JOIN LATERAL (
      SELECT FROM scoped_forms s
      WHERE s.user_id = ${$("userId")} AND s.created_at = f.created_at AND s.form_id = f.id LIMIT 1
    ) s`;
};

/** `mayHavePredecessors`: forms that come before it may still become visible. Null if it is older than LIST_SETTLE_SECONDS, by
 * the database's clock, or if no create was in flight and later ones get a later time.
 */
export type ListedForm = FormRow & { mayHavePredecessors: true | null };

// `created_at` is rounded to milliseconds, so `now()` is too.
const listedColumns = ($: Builder["$"]) => `${FORM_COLUMNS},
    nullif(f.created_at > now() - make_interval(secs => ${$("settleSeconds")})
      AND NOT (f.created_at < now()::timestamptz(3) AND ${NONE_IN_FLIGHT}), false) AS "mayHavePredecessors"`;

const oldest = (name: string, source: Source) =>
  prepare<ListedForm>(name, { comparison: ">", direction: "" }, listedColumns, source);

/** A user's forms, oldest first. */
export const OLDEST = {
  inScope: oldest("forms", inScope),
  amongNext: oldest("forms-among-next", amongNext),
  onListing: oldest(
    "forms-on-listing",
    onListings((builder) => `${listingsInScope(builder)} AND m.listing_id = ${builder.$("listingId")}`),
  ),
  byListing: oldest("forms-by-listing", onListings(listingsInScope)),
  amongStatus: oldest("forms-among-status", amongStatus),
  withRareStatus: oldest(
    "forms-with-rare-status",
    withRare(({ $ }) => `f.status = ${$("status")}`, "f.created_at, f.id"),
  ),
  withExternalId: oldest(
    "forms-with-external-id",
    withRare(({ $ }) => `f.external_id = ${$("externalId")}`, "f.created_at, f.id"),
  ),
  updatedSince: oldest(
    "forms-updated-since",
    withRare(({ $ }) => `${UPDATED_AT} >= ${$("updatedSince")}`, UPDATED_AT),
  ),
  checkingIn: oldest(
    "forms-checking-in",
    withRare(
      ({ $ }) => `f.check_in_date >= coalesce(${$("checkInFrom")}, '-infinity')
        AND f.check_in_date < coalesce(${$("checkInTo")}, 'infinity')`,
      "f.check_in_date",
    ),
  ),
};

const newest = (name: string, source: Source) =>
  prepare<FormRow>(name, { comparison: "<", direction: " DESC" }, () => FORM_COLUMNS, source);

/** The newest forms in each of these statuses. No index sorts all forms, because it would slow down creates. */
const inStatuses =
  (statuses: (builder: Builder) => string): Source =>
  (builder) =>
    `
    ${statuses(builder)}
    SELECT first.created_at, first.id FROM existing
    CROSS JOIN LATERAL (
      SELECT f.created_at, f.id FROM forms f
      WHERE f.status = existing.status AND ${builder.after("f.created_at", "f.id")}
      ${builder.sorted("f.created_at", "f.id")} LIMIT ${builder.$("take")}
    ) first`;

// A status is open text, so those that exist are found by jumping through the index from each to the next.
const existingStatuses = () => `WITH RECURSIVE existing (status) AS (
      SELECT ''
      UNION ALL
      SELECT (SELECT min(f.status) FROM forms f WHERE f.status > e.status) FROM existing e WHERE e.status IS NOT NULL
    )`;

/** Condition: in the scope of the user, if one is given. */
const inScopeIfGiven = ({ $ }: Builder, listingId: string) => `(${$("userId")} IS NULL OR EXISTS (
        SELECT FROM memberships m WHERE m.user_id = ${$("userId")} AND ${GRANTS_SCOPE} AND m.listing_id = ${listingId}))`;

// UTC is at most 14 hours behind and 12 hours ahead of a local time. A time zone that the database does not know counts as UTC: it
// would fail the list.
const onDay: Source = (builder) => {
  const { $, after } = builder;
  const nearby = `SELECT * FROM forms f WHERE f.check_in_date >= ${$("checkInDay")} - interval '14 hours'
        AND f.check_in_date < ${$("checkInDay")} + interval '36 hours'`;
  return `
    SELECT f.created_at, f.id
    FROM ${range(builder, nearby, "ORDER BY f.check_in_date")} f
    CROSS JOIN LATERAL (SELECT timezone FROM listings WHERE id = f.listing_id LIMIT 1) l
    WHERE (f.check_in_date AT TIME ZONE CASE
          WHEN lower(l.timezone) IN (SELECT unnest(${$("timeZones")})) THEN l.timezone ELSE 'UTC'
        END)::date = ${$("checkInDay")}
      AND ${after("f.created_at", "f.id")}
      AND ${ifGiven(builder, "status", "f.status =")} AND ${ifGiven(builder, "listingId", "f.listing_id =")}
      AND ${inScopeIfGiven(builder, "f.listing_id")}`;
};

/** All forms or a user's, newest first, for the operator. */
export const NEWEST = {
  all: newest("newest-forms", inStatuses(existingStatuses)),
  inStatus: newest(
    "newest-forms-in-status",
    inStatuses(({ $ }) => `WITH existing (status) AS (SELECT ${$("status")})`),
  ),
  inScope: newest("newest-forms-of-user", inScope),
  byListing: newest("newest-forms-by-listing", onListings(listingsInScope)),
  amongStatus: newest("newest-forms-among-status", amongStatus),
  onListing: newest(
    "newest-forms-on-listing",
    onListings((builder) => {
      const listingId = builder.$("listingId");
      return `SELECT l.id AS listing_id FROM listings l WHERE l.id = ${listingId} AND ${inScopeIfGiven(builder, listingId)}`;
    }),
  ),
  onDay: newest("newest-forms-on-day", onDay),
};
