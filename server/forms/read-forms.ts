import type { z } from "zod";
import type { Call, GuestPageContext, ScopedContext, Services } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import type { Sql } from "../database/db.js";
import { NONE_IN_FLIGHT } from "../database/in-flight-creates.js";
import { ON_PRIMARY } from "../database/primary.js";
import { notFound } from "../errors.js";
import { readTimeZoneNames } from "../listings/timezones.js";
import { type KeysetValues, type Page, readPage } from "../resources/paging.js";
import { snakeCase } from "../resources/resource.js";
import {
  type byPublicIdInput,
  type GuestForm,
  guestForm,
  type listAllInput,
  type OperatorForm,
} from "./in-app-schema.js";
import { FORM_COLUMNS, type FormRow, projectForm } from "./queries.js";
import type { FormV1, getInput, listInput } from "./schema.js";

const GET = `
  SELECT ${FORM_COLUMNS}
  FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
  WHERE f.id = $2::uuid AND ${membershipInScope("$1")} AND ${ON_PRIMARY}`;

export async function getForm({ ctx, input }: Call<typeof getInput, ScopedContext>): Promise<FormV1> {
  const [row] = await ctx.services.db.query<FormRow>("form", GET, [ctx.principal.userId, input.id]);
  if (!row) throw notFound("form");
  return projectForm(row, ctx.services.settings);
}

/**
 * `mayHavePredecessors`: forms that come before it may still become visible. Null if it is older than LIST_SETTLE_SECONDS, by
 * the database's clock, or if no create was in flight and later ones get a later time.
 */
type ListedForm = FormRow & { mayHavePredecessors: true | null };

// `created_at` is rounded to milliseconds, so `now()` is too.
const LISTED = `${FORM_COLUMNS}, nullif(f.created_at > now() - make_interval(secs => $5::int)
  AND NOT (f.created_at < now()::timestamptz(3) AND ${NONE_IN_FLIGHT}), false) AS "mayHavePredecessors"`;

/**
 * Forms on all listings in scope: one index range of `scoped_forms`, which triggers keep in sync. LATERAL with LIMIT
 * looks forms up one by one until the page is full; a plain join could read them all.
 */
const LIST = `
  SELECT ${LISTED}
  FROM scoped_forms s
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = s.form_id LIMIT 1) f
  WHERE s.user_id = $1::uuid AND (s.created_at, s.form_id) > ($2::timestamptz, $3::uuid) AND ${ON_PRIMARY}
  ORDER BY s.created_at, s.form_id
  LIMIT $4::int`;

const LIST_ON_LISTING = `
  SELECT ${LISTED}
  FROM forms f
  WHERE f.listing_id = $6::uuid AND (f.created_at, f.id) > ($2::timestamptz, $3::uuid)
    AND EXISTS (SELECT FROM memberships m WHERE ${membershipInScope("$1")} AND m.listing_id = $6::uuid) AND ${ON_PRIMARY}
  ORDER BY f.created_at, f.id
  LIMIT $4::int`;

export function listForms({ ctx, input }: Call<typeof listInput, ScopedContext>): Promise<Page<FormV1>> {
  const { principal, signal } = ctx;
  const { db, settings, inFlightCreates } = ctx.services;
  const { listingId } = input;
  return readPage(ctx, input, {
    identity: { list: "forms", listingId },
    order: "oldest first",
    read: (page) => {
      const values = [principal.userId, ...page, settings.LIST_SETTLE_SECONDS];
      return listingId === undefined
        ? db.query<ListedForm>("forms", LIST, values)
        : db.query<ListedForm>("forms-on-listing", LIST_ON_LISTING, [...values, listingId]);
    },
    project: (row) => projectForm(row, settings),
    waitForEarlierRows: async ({ mayHavePredecessors }) => {
      if (!mayHavePredecessors) return false;
      await inFlightCreates.wait(signal);
      return true;
    },
  });
}

// Forms as the operator reads them, not limited by scope.

type Filters = Omit<z.output<typeof listAllInput>, "limit" | "cursor">;

const GET_ANY = `
  SELECT ${FORM_COLUMNS}, f.guest_email IS NOT NULL AS "hasGuestEmail" FROM forms f WHERE f.id = $1::uuid`;

const newestForms = (condition: string) => `
  SELECT ${FORM_COLUMNS}
  FROM forms f
  WHERE ${condition} AND (f.created_at, f.id) < ($1::timestamptz, $2::uuid)
  ORDER BY f.created_at DESC, f.id DESC
  LIMIT $3::int`;

// No index sorts all forms, because it would slow down creates: this merges the newest forms in each status. A status is open
// text, so those that exist are found by jumping through the index from each to the next.
const NEWEST = `
  WITH RECURSIVE existing (status) AS (
    SELECT ''
    UNION ALL
    SELECT (SELECT min(f.status) FROM forms f WHERE f.status > e.status) FROM existing e WHERE e.status IS NOT NULL
  )
  SELECT newest.* FROM existing e CROSS JOIN LATERAL (${newestForms("f.status = e.status")}) newest
  ORDER BY newest."createdAt" DESC, newest.id DESC
  LIMIT $3::int`;

const NEWEST_IN_STATUS = newestForms("f.status = $4::text");

const HAS_STATUS = "coalesce(f.status = $4::text, true)";
const NEWEST_ON_LISTING = newestForms(`f.listing_id = $5::uuid AND ${HAS_STATUS}`);
const NEWEST_ON_LISTING_OF_USER = newestForms(`f.listing_id = $5::uuid AND ${HAS_STATUS}
    AND EXISTS (SELECT FROM memberships m WHERE ${membershipInScope("$6")} AND m.listing_id = $5::uuid)`);

const NEWEST_OF_USER = `
  SELECT ${FORM_COLUMNS}
  FROM scoped_forms s
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = s.form_id LIMIT 1) f
  WHERE s.user_id = $5::uuid AND (s.created_at, s.form_id) < ($1::timestamptz, $2::uuid) AND ${HAS_STATUS}
  ORDER BY s.created_at DESC, s.form_id DESC
  LIMIT $3::int`;

// A subquery and not EXISTS, which the planner could turn into a join that reads the user's whole scope.
const isInScope = (userId: string) => `(
  SELECT true FROM scoped_forms s WHERE s.user_id = ${userId}::uuid AND s.created_at = f.created_at AND s.form_id = f.id)`;

// Merges two index ranges in the same order without reading a form. With OFFSET 0 the planner does not choose another way.
const NEWEST_IN_STATUS_OF_USER = `
  SELECT ${FORM_COLUMNS}
  FROM (
    SELECT s.created_at, s.form_id
    FROM (
      SELECT created_at, form_id FROM scoped_forms
      WHERE user_id = $5::uuid AND (created_at, form_id) < ($1::timestamptz, $2::uuid)
      ORDER BY created_at DESC, form_id DESC OFFSET 0
    ) s JOIN (
      SELECT created_at, id FROM forms
      WHERE status = $4::text AND (created_at, id) < ($1::timestamptz, $2::uuid)
      ORDER BY created_at DESC, id DESC OFFSET 0
    ) f ON f.created_at = s.created_at AND f.id = s.form_id
    ORDER BY s.created_at DESC, s.form_id DESC
    LIMIT $3::int
  ) page
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.form_id LIMIT 1) f
  ORDER BY page.created_at DESC, page.form_id DESC`;

/** A larger scope is not read in search of forms in one status, which may be rare. */
const MAX_SCOPE_TO_SEARCH = 5_000;

const IS_LARGER_SCOPE = `
  SELECT FROM scoped_forms WHERE user_id = $1::uuid ORDER BY created_at, form_id OFFSET ${MAX_SCOPE_TO_SEARCH} LIMIT 1`;

async function selectInStatusOfUser(sql: Sql, page: KeysetValues, status: string, userId: string): Promise<FormRow[]> {
  const [further] = await sql.query("is-larger-scope", IS_LARGER_SCOPE, [userId]);
  const values = [...page, status, userId];
  return further
    ? sql.query("newest-forms-in-status-of-user", NEWEST_IN_STATUS_OF_USER, values)
    : sql.query("newest-forms-of-user", NEWEST_OF_USER, values);
}

// UTC is at most 14 hours behind and 12 hours ahead of a local time. With OFFSET 0 the day's forms are read first, whatever the
// planner expects of the other conditions. A time zone that the database does not know counts as UTC: it would fail the list.
const NEWEST_ON_DAY = `
  SELECT ${FORM_COLUMNS}
  FROM (
    SELECT * FROM forms
    WHERE check_in_date >= $4::date - interval '14 hours' AND check_in_date < $4::date + interval '36 hours'
    OFFSET 0
  ) f
  CROSS JOIN LATERAL (SELECT timezone FROM listings WHERE id = f.listing_id LIMIT 1) l
  LEFT JOIN unnest($8::text[]) AS known (name) ON known.name = lower(l.timezone)
  WHERE (f.check_in_date AT TIME ZONE coalesce(known.name, 'UTC'))::date = $4::date
    AND (f.created_at, f.id) < ($1::timestamptz, $2::uuid)
    AND coalesce(f.status = $5::text, true) AND coalesce(f.listing_id = $6::uuid, true)
    AND ($7::uuid IS NULL OR ${isInScope("$7")})
  ORDER BY f.created_at DESC, f.id DESC
  LIMIT $3::int`;

async function selectNewestForms(sql: Sql, page: KeysetValues, filters: Filters): Promise<FormRow[]> {
  const { listingId, userId, status = null, checkInDay } = filters;
  if (checkInDay !== undefined) {
    const timeZones = await readTimeZoneNames(sql);
    const values = [...page, checkInDay, status, listingId ?? null, userId ?? null, [...timeZones.keys()]];
    return sql.query("newest-forms-on-day", NEWEST_ON_DAY, values);
  }
  if (listingId !== undefined)
    return userId === undefined
      ? sql.query("newest-forms-on-listing", NEWEST_ON_LISTING, [...page, status, listingId])
      : sql.query("newest-forms-on-listing-of-user", NEWEST_ON_LISTING_OF_USER, [...page, status, listingId, userId]);
  if (userId !== undefined)
    return status === null
      ? sql.query("newest-forms-of-user", NEWEST_OF_USER, [...page, status, userId])
      : selectInStatusOfUser(sql, page, status, userId);
  return status === null
    ? sql.query("newest-forms", NEWEST, page)
    : sql.query("newest-forms-in-status", NEWEST_IN_STATUS, [...page, status]);
}

export async function getAnyForm({ ctx, input }: Call<typeof getInput>): Promise<OperatorForm> {
  const [row] = await ctx.services.db.query<FormRow & { hasGuestEmail: boolean }>("any-form", GET_ANY, [input.id]);
  if (!row) throw notFound("form");
  return { ...projectForm(row, ctx.services.settings), hasGuestEmail: row.hasGuestEmail };
}

const GET_MANY = `SELECT ${FORM_COLUMNS} FROM forms f WHERE f.id = ANY($1::uuid[]) ORDER BY f.created_at, f.id`;

export const readFormsById = async ({ db, settings }: Services, ids: readonly string[]): Promise<FormV1[]> =>
  (await db.query<FormRow>("forms-by-id", GET_MANY, [ids])).map((row) => projectForm(row, settings));

const LISTING_FIELDS = Object.keys(guestForm.shape.listing.shape).map((field) => `'${field}', l.${snakeCase(field)}`);

const GET_BY_PUBLIC_ID = `
  SELECT ${FORM_COLUMNS}, json_build_object(${LISTING_FIELDS}) AS listing
  FROM forms f JOIN listings l ON l.id = f.listing_id
  WHERE f.public_id = $1::text`;

type GuestFormRow = FormRow & Pick<GuestForm, "listing">;

export async function getFormByPublicId({
  ctx,
  input,
}: Call<typeof byPublicIdInput, GuestPageContext>): Promise<GuestForm> {
  const values = [input.publicId];
  const [found] = await ctx.services.db.query<GuestFormRow>("form-by-public-id", GET_BY_PUBLIC_ID, values);
  if (!found) throw notFound("form");
  const { listing } = found;
  const { settings } = ctx.services;
  return { form: projectForm(found, settings), listing, privacyUrl: settings.EMAIL_PRIVACY_URL ?? null };
}

export function listAllForms({ ctx, input }: Call<typeof listAllInput>): Promise<Page<FormV1>> {
  const { db, settings } = ctx.services;
  const { limit: _limit, cursor: _cursor, ...filters } = input;
  return readPage(ctx, input, {
    identity: { list: "all forms", filters },
    order: "newest first",
    read: (page) => selectNewestForms(db, page, filters),
    project: (row) => projectForm(row, settings),
  });
}
