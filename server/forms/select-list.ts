import type { z } from "zod";
import type { Sql } from "../database/db.js";
import { ON_PRIMARY } from "../database/primary.js";
import { readTimeZoneNames } from "../listings/timezones.js";
import type { KeysetValues } from "../resources/paging.js";
import type { listAllInput } from "./in-app-schema.js";
import { type ListedForm, type ListParameters, NEWEST, OLDEST } from "./list-statements.js";
import { type FormRow, UPDATED_AT } from "./queries.js";
import type { FormFilters } from "./schema.js";

// A page reads at most this many forms or entries of an index before it tries another way, and then at most that many.
const FEW = 5_000;
const MANY = 200_000;

/** SQL: whether there are at most `$1` of these, which come in the order of an index. */
const isFew = (rows: string) => `NOT EXISTS (${rows} OFFSET $1::int LIMIT 1)`;

// Each is evaluated only if those before it are false.
const CHOOSE = `
  SELECT CASE
    WHEN CASE WHEN $3::uuid IS NULL
      THEN ${isFew("SELECT FROM scoped_forms WHERE user_id = $2::uuid ORDER BY created_at, form_id")}
      ELSE ${isFew("SELECT FROM forms WHERE listing_id = $3::uuid ORDER BY created_at, id")} END THEN 'all'
    WHEN $4::text IS NOT NULL
      AND ${isFew("SELECT FROM forms WHERE external_id = $4::text ORDER BY created_at, id")} THEN 'withExternalId'
    WHEN $5::timestamptz IS NOT NULL
      AND ${isFew(`SELECT FROM forms f WHERE ${UPDATED_AT} >= $5::timestamptz ORDER BY ${UPDATED_AT}`)} THEN 'updatedSince'
    WHEN coalesce($6::timestamptz, $7::timestamptz) IS NOT NULL
      AND ${isFew(`SELECT FROM forms WHERE check_in_date >= coalesce($6::timestamptz, '-infinity')
        AND check_in_date < coalesce($7::timestamptz, 'infinity') ORDER BY check_in_date`)} THEN 'checkingIn'
    WHEN $8::text IS NOT NULL
      AND ${isFew("SELECT FROM forms WHERE status = $8::text ORDER BY created_at, id")} THEN 'withRareStatus'
  END AS source
  WHERE ${ON_PRIMARY}`;

type Choice = "all" | "withExternalId" | "updatedSince" | "checkingIn" | "withRareStatus" | null;

/** Returns what has at most `limit` forms: all of the scope or the listing, or those with one of the filters' values; or null. */
async function findFew(sql: Sql, limit: number, parameters: ListParameters): Promise<Choice> {
  const { userId, listingId, externalId, updatedSince, checkInFrom, checkInTo, status } = parameters;
  const values = [limit, userId, listingId, externalId, updatedSince, checkInFrom, checkInTo, status];
  const [row] = await sql.query<{ source: Choice }>("choose-form-source", CHOOSE, values);
  return row?.source ?? null;
}

const keyset = ([afterCreatedAt, afterId, take]: KeysetValues) => ({ afterCreatedAt, afterId, take, all: MAX_BIGINT });

const MAX_BIGINT = `${2n ** 63n - 1n}`;

/** The forms in the user's scope that match the filters, oldest first. */
export async function selectOldestForms(
  sql: Sql,
  page: KeysetValues,
  scope: { userId: string; settleSeconds: number; listingId: string | undefined },
  filters: FormFilters,
): Promise<ListedForm[]> {
  const parameters = { ...keyset(page), ...scope, ...filters };
  const names = Object.keys(filters);
  const isWholeScope = scope.listingId === undefined;
  const all = isWholeScope ? OLDEST.byListing : OLDEST.onListing;
  const read = (choice: Choice) => (choice === null || choice === "all" ? all : OLDEST[choice]).read(sql, parameters);
  if (names.length === 0) return isWholeScope ? OLDEST.inScope.read(sql, parameters) : all.read(sql, parameters);
  const few = await findFew(sql, FEW, parameters);
  if (few !== null || !isWholeScope) return read(few);
  const next = names.join() === "status" ? OLDEST.amongStatus : OLDEST.amongNext;
  const found = await next.read(sql, parameters);
  return found.length === parameters.take ? found : read(await findFew(sql, MANY, parameters));
}

type OperatorFilters = Omit<z.output<typeof listAllInput>, "limit" | "cursor">;

/** All forms that match, newest first; with `userId`, those in that user's scope. */
export async function selectNewestForms(sql: Sql, page: KeysetValues, filters: OperatorFilters): Promise<FormRow[]> {
  const { listingId, userId, status, checkInDay } = filters;
  const parameters = { ...keyset(page), ...filters };
  if (checkInDay !== undefined) {
    const timeZones = [...(await readTimeZoneNames(sql)).keys()];
    return NEWEST.onDay.read(sql, { ...parameters, timeZones });
  }
  if (listingId !== undefined) return NEWEST.onListing.read(sql, parameters);
  if (userId === undefined) return (status === undefined ? NEWEST.all : NEWEST.inStatus).read(sql, parameters);
  if (status === undefined) return NEWEST.inScope.read(sql, parameters);
  const isSmall = (await findFew(sql, FEW, { userId })) === "all";
  const found = isSmall ? [] : await NEWEST.amongStatus.read(sql, parameters);
  return found.length === parameters.take ? found : NEWEST.byListing.read(sql, parameters);
}
