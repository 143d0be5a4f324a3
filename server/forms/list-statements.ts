import { GRANTS_SCOPE } from "../access/scope.js";
import { NONE_IN_FLIGHT } from "../database/in-flight-creates.js";
import { ON_PRIMARY } from "../database/primary.js";
import { INVITATION } from "../outbox/enqueue.js";
import { type Builder, buildStatement, FILTERED_COLUMNS, ifGiven, matches, type ORDERS } from "./list-builder.js";
import { FORM_COLUMNS, type FormRow, UPDATED_AT } from "./queries.js";

// The statements of the lists of forms: those in a user's scope, oldest first, and all, newest first. Each has a source of forms in
// the order of the list. `select-list.ts` chooses the source; gateway/docs/performance.md says what each reads.

/** SQL that selects `created_at` and `id` of forms. */
type Source = (builder: Builder) => string;

const page = <Row extends FormRow>(
  name: string,
  order: keyof typeof ORDERS,
  columns: ($: Builder["$"]) => string,
  source: Source,
) =>
  // LATERAL with LIMIT looks the forms of the page up one by one; a plain join could read them all.
  buildStatement<Row>(
    name,
    order,
    (builder) => `
  SELECT ${columns(builder.$)}
  FROM (${source(builder)}
    ${builder.sorted("created_at", "id")} LIMIT ${builder.$("take")}
  ) page
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
  WHERE ${ON_PRIMARY}
  ${builder.sorted("page.created_at", "page.id")}`,
  );

const listingsInScope = ({ $ }: Builder) =>
  `SELECT m.listing_id FROM memberships m WHERE m.user_id = ${$("userId")} AND ${GRANTS_SCOPE}`;

/** The given listing, if it is in scope. */
const listingInScope = (builder: Builder) => `${listingsInScope(builder)} AND m.listing_id = ${builder.$("listingId")}`;

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

/** Of the next forms in the status, those in scope. An incomplete page says nothing about the forms after them. */
const amongStatus: Source = ({ $, after, sorted }) => `
    SELECT f.created_at, f.id
    FROM (
      SELECT f.created_at, f.id FROM forms f WHERE f.status = ${$("status")} AND ${after("f.created_at", "f.id")}
      ${sorted("f.created_at", "f.id")} LIMIT ${SEARCHED}
    ) f
    CROSS JOIN LATERAL (
      SELECT FROM scoped_forms s
      WHERE s.user_id = ${$("userId")} AND s.created_at = f.created_at AND s.form_id = f.id LIMIT 1
    ) s`;

/**
 * A range of an index, in its order. Not OFFSET 0: without pages that VACUUM has marked, the planner would read the whole range and
 * sort it, or even the whole table. With a limit that it does not know, it expects to read a tenth, and keeps to the index.
 */
const range = ({ $ }: Builder, select: string, order: string) => `(${select} ${order} LIMIT ${$("all")})`;

/** The first page of each of these listings, from an index that has all that is compared. With OFFSET 0 they are read first. */
const onListings =
  (listings: (builder: Builder) => string): Source =>
  (builder) => {
    const forms = `SELECT f.created_at, f.id, ${FILTERED_COLUMNS} FROM forms f
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

/** A filter with an index of its own. */
interface IndexedValue {
  isGiven: (builder: Builder) => string;
  condition: (builder: Builder) => string;
  order: (builder: Builder) => string;
}

/** A value whose index is in the order of the list. */
const inListOrder = (name: "externalId" | "status", column: string): IndexedValue => ({
  isGiven: ({ $ }) => `${$(name)} IS NOT NULL`,
  condition: ({ $, after }) => `${column} = ${$(name)} AND ${after("f.created_at", "f.id")}`,
  order: ({ sorted }) => sorted("f.created_at", "f.id"),
});

/** By source, those that few forms usually have first. */
const INDEXED = {
  withExternalId: inListOrder("externalId", "f.external_id"),
  updatedSince: {
    isGiven: ({ $ }) => `${$("updatedSince")} IS NOT NULL`,
    condition: ({ $ }) => `${UPDATED_AT} >= ${$("updatedSince")}`,
    order: () => `ORDER BY ${UPDATED_AT}`,
  },
  checkingIn: {
    isGiven: ({ $ }) => `coalesce(${$("checkInFrom")}, ${$("checkInTo")}) IS NOT NULL`,
    condition: ({ $ }) => `f.check_in_date >= coalesce(${$("checkInFrom")}, '-infinity')
        AND f.check_in_date < coalesce(${$("checkInTo")}, 'infinity')`,
    order: () => "ORDER BY f.check_in_date",
  },
  withStatus: inListOrder("status", "f.status"),
} satisfies Record<string, IndexedValue>;

/** All forms with the value, whosever they are, in the order of the list, and of these the ones in scope. */
const withValue =
  ({ condition, order }: IndexedValue): Source =>
  (builder) => {
    const forms = range(builder, `SELECT * FROM forms f WHERE ${condition(builder)}`, order(builder));
    const matching = `SELECT f.created_at, f.id, f.listing_id FROM ${forms} f
      WHERE ${builder.after("f.created_at", "f.id")} AND ${ifGiven(builder, "listingId", "f.listing_id =")}
        AND ${matches(builder)}`;
    return `
    SELECT f.created_at, f.id
    FROM ${range(builder, matching, builder.sorted("f.created_at", "f.id"))} f
    CROSS JOIN LATERAL (${listingsInScope(builder)} AND m.listing_id = f.listing_id LIMIT 1) m`;
  };

/** What has few forms: all of the scope or the listing, or those with one of the filters' values; or null. */
type Few = "all" | keyof typeof INDEXED | null;

/** Finds what has at most `mostInScope` forms after the cursor, or `mostWithValue`. Each is counted only if those before have more. */
const findFew = (name: string, order: keyof typeof ORDERS) =>
  buildStatement<{ few: Few }>(name, order, (builder) => {
    const { $, after, sorted } = builder;
    const isFew = (rows: string, most: "mostInScope" | "mostWithValue") =>
      `NOT EXISTS (${rows} OFFSET ${$(most)} LIMIT 1)`;
    const scope = `SELECT FROM scoped_forms s WHERE s.user_id = ${$("userId")}
        AND ${after("s.created_at", "s.form_id")} ${sorted("s.created_at", "s.form_id")}`;
    const listing = `SELECT FROM forms f WHERE f.listing_id = (${listingInScope(builder)})
        AND ${after("f.created_at", "f.id")} ${sorted("f.created_at", "f.id")}`;
    const values = Object.entries<IndexedValue>(INDEXED).map(([source, value]) => {
      const rows = `SELECT FROM forms f WHERE ${value.condition(builder)} ${value.order(builder)}`;
      return `WHEN ${value.isGiven(builder)}
      AND ${isFew(rows, "mostWithValue")} THEN '${source}'`;
    });
    return `
  SELECT CASE
    WHEN CASE WHEN ${$("listingId")} IS NULL
      THEN ${isFew(scope, "mostInScope")}
      ELSE ${isFew(listing, "mostInScope")} END THEN 'all'
    ${values.join("\n    ")}
  END AS few
  WHERE ${ON_PRIMARY}`;
  });

/**
 * `mayHavePredecessors`: forms that come before it may still become visible. Null if it is older than LIST_SETTLE_SECONDS, by
 * the primary's clock, or if no create was in flight and later ones get a later time. The snapshot of a standby cannot show that.
 */
export type ListedForm = FormRow & { mayHavePredecessors: true | null };

// `created_at` is rounded to milliseconds, so `now()` is too.
const listedColumns = ($: Builder["$"]) => `${FORM_COLUMNS},
    nullif(f.created_at > coalesce(${$("primaryNow")}, now()) - make_interval(secs => ${$("settleSeconds")})
      AND NOT (${$("primaryNow")} IS NULL AND f.created_at < now()::timestamptz(3) AND ${NONE_IN_FLIGHT}), false) AS "mayHavePredecessors"`;

const oldest = (name: string, source: Source) => page<ListedForm>(name, "oldest first", listedColumns, source);

/** A user's forms, oldest first. */
export const OLDEST = {
  inScope: oldest("forms", inScope),
  amongNext: oldest("forms-among-next", amongNext),
  amongStatus: oldest("forms-among-status", amongStatus),
  onListing: oldest("forms-on-listing", onListings(listingInScope)),
  byListing: oldest("forms-by-listing", onListings(listingsInScope)),
  withExternalId: oldest("forms-with-external-id", withValue(INDEXED.withExternalId)),
  updatedSince: oldest("forms-updated-since", withValue(INDEXED.updatedSince)),
  checkingIn: oldest("forms-checking-in", withValue(INDEXED.checkingIn)),
  withStatus: oldest("forms-with-status", withValue(INDEXED.withStatus)),
};

export const FEW_OF_OLDEST = findFew("few-forms", "oldest first");

const newest = (name: string, source: Source) => page<FormRow>(name, "newest first", () => FORM_COLUMNS, source);

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
const inScopeIfGiven = (builder: Builder, listingId: string) => `(${builder.$("userId")} IS NULL OR EXISTS (
        ${listingsInScope(builder)} AND m.listing_id = ${listingId}))`;

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
      AND (${$("arrivesWithinDays")} IS NULL OR (f.status = 'SENT' AND ${arrivesSoon(builder)}))
      AND ${matchesOperator(builder)} AND ${after("f.created_at", "f.id")}`;
};

/** The check-in is in this many days from now at most. */
const arrivesSoon = ({ $ }: Builder) =>
  `f.check_in_date >= now() AND f.check_in_date < now() + make_interval(days => ${$("arrivesWithinDays")})`;

const LAST_EMAIL_STATE = `(
          SELECT n.state::text FROM emails n WHERE n.form_id = f.id AND n.kind = '${INVITATION}' ORDER BY n.id DESC LIMIT 1)`;

const matchesOperator = (builder: Builder) => `${ifGiven(builder, "status", "f.status =")}
      AND ${ifGiven(builder, "listingId", "f.listing_id =")} AND ${inScopeIfGiven(builder, "f.listing_id")}
      AND ${ifGiven(builder, "externalId", "f.external_id =")}
      AND ${ifGiven(builder, "emailState", `${LAST_EMAIL_STATE} =`)}`;

const arriving: Source = (builder) => `
    SELECT f.created_at, f.id
    FROM ${range(builder, `SELECT * FROM forms f WHERE ${arrivesSoon(builder)}`, "ORDER BY f.check_in_date")} f
    WHERE f.status = 'SENT' AND ${matchesOperator(builder)} AND ${builder.after("f.created_at", "f.id")}`;

const withExternalId: Source = (builder) => {
  const { condition, order } = INDEXED.withExternalId;
  const forms = range(builder, `SELECT * FROM forms f WHERE ${condition(builder)}`, order(builder));
  return `
    SELECT f.created_at, f.id FROM ${forms} f WHERE ${matchesOperator(builder)}`;
};

/** Forms whose last invitation is in a state, except `sent`, which most are in. */
const withEmailState: Source = (builder) => {
  const { $, after } = builder;
  const emails = `SELECT * FROM emails n
      WHERE n.state = ${$("emailState")}::"EmailState" AND n.state <> 'sent' AND n.form_id IS NOT NULL`;
  return `
    SELECT DISTINCT f.created_at, f.id
    FROM ${range(builder, emails, "ORDER BY n.created_at, n.id")} n
    CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = n.form_id LIMIT 1) f
    WHERE ${matchesOperator(builder)} AND ${after("f.created_at", "f.id")}`;
};

/** All forms or a user's, newest first, for the operator. */
export const NEWEST = {
  all: newest("newest-forms", inStatuses(existingStatuses)),
  inStatus: newest(
    "newest-forms-in-status",
    inStatuses(({ $ }) => `WITH existing (status) AS (SELECT ${$("status")})`),
  ),
  inScope: newest("newest-forms-of-user", inScope),
  amongStatus: newest("newest-forms-among-status", amongStatus),
  withStatus: newest("newest-forms-with-status", withValue(INDEXED.withStatus)),
  byListing: newest("newest-forms-by-listing", onListings(listingsInScope)),
  onListing: newest(
    "newest-forms-on-listing",
    onListings((builder) => {
      const listingId = builder.$("listingId");
      return `SELECT l.id AS listing_id FROM listings l WHERE l.id = ${listingId} AND ${inScopeIfGiven(builder, listingId)}`;
    }),
  ),
  onDay: newest("newest-forms-on-day", onDay),
  arriving: newest("newest-forms-arriving", arriving),
  withExternalId: newest("newest-forms-with-external-id", withExternalId),
  withEmailState: newest("newest-forms-with-email-state", withEmailState),
};

export const FEW_OF_NEWEST = findFew("few-newest-forms", "newest first");
