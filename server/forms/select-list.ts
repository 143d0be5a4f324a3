import type { z } from "zod";
import type { Sql } from "../database/db.js";
import { readTimeZoneNames } from "../listings/timezones.js";
import type { KeysetValues } from "../resources/paging.js";
import type { listAllInput } from "./in-app-schema.js";
import { FEW_OF_NEWEST, FEW_OF_OLDEST, type ListedForm, NEWEST, OLDEST } from "./list-statements.js";
import type { FormRow } from "./queries.js";
import type { FormFilters } from "./schema.js";

/**
 * How many forms a page may read before it tries another way: first a few, and in the end many. To read a form by a value costs as
 * much as ten index entries of the scope, or as one if VACUUM has not marked the pages of the scope.
 */
const LIMITS = {
  few: { mostInScope: 5_000, mostWithValue: 5_000 },
  many: { mostInScope: 400_000, mostWithValue: 200_000 },
};

const MAX_BIGINT = `${2n ** 63n - 1n}`;

const keyset = ([afterCreatedAt, afterId, take]: KeysetValues) => ({ afterCreatedAt, afterId, take, all: MAX_BIGINT });

/** The forms in the user's scope that match the filters, oldest first. */
export async function selectOldestForms(
  sql: Sql,
  page: KeysetValues,
  scope: { userId: string; settleSeconds: number; listingId: string | undefined; primaryNow?: string | undefined },
  filters: FormFilters,
  limits = LIMITS,
): Promise<ListedForm[]> {
  const parameters = { ...keyset(page), ...scope, ...filters };
  const isWholeScope = scope.listingId === undefined;
  const all = isWholeScope ? OLDEST.byListing : OLDEST.onListing;
  const readFew = async (most: typeof LIMITS.few) => {
    const [{ few } = { few: null }] = await FEW_OF_OLDEST.read(sql, { ...parameters, ...most });
    return few === null ? null : (few === "all" ? all : OLDEST[few]).read(sql, parameters);
  };
  const names = Object.keys(filters);
  if (names.length === 0) return (isWholeScope ? OLDEST.inScope : all).read(sql, parameters);
  const few = await readFew(limits.few);
  if (few) return few;
  if (!isWholeScope) return all.read(sql, parameters);
  const next = names.join() === "status" ? OLDEST.amongStatus : OLDEST.amongNext;
  const found = await next.read(sql, parameters);
  if (found.length === parameters.take) return found;
  return (await readFew(limits.many)) ?? all.read(sql, parameters);
}

type OperatorFilters = Omit<z.output<typeof listAllInput>, "limit" | "cursor">;

/** All forms that match, newest first; with `userId`, those in that user's scope. */
export async function selectNewestForms(sql: Sql, page: KeysetValues, filters: OperatorFilters): Promise<FormRow[]> {
  const { listingId, userId, status, checkInDay, externalId, emailState, arrivesWithinDays } = filters;
  const parameters = { ...keyset(page), ...filters };
  if (checkInDay !== undefined) {
    const timeZones = [...(await readTimeZoneNames(sql)).keys()];
    return NEWEST.onDay.read(sql, { ...parameters, timeZones });
  }
  if (arrivesWithinDays !== undefined) return NEWEST.arriving.read(sql, parameters);
  if (externalId !== undefined) return NEWEST.withExternalId.read(sql, parameters);
  if (emailState !== undefined) return NEWEST.withEmailState.read(sql, parameters);
  if (listingId !== undefined) return NEWEST.onListing.read(sql, parameters);
  if (userId === undefined) return (status === undefined ? NEWEST.all : NEWEST.inStatus).read(sql, parameters);
  if (status === undefined) return NEWEST.inScope.read(sql, parameters);
  const [row] = await FEW_OF_NEWEST.read(sql, { ...parameters, ...LIMITS.few });
  if (row?.few === "withStatus") return NEWEST.withStatus.read(sql, parameters);
  const found = row?.few === "all" ? [] : await NEWEST.amongStatus.read(sql, parameters);
  return found.length === parameters.take ? found : NEWEST.byListing.read(sql, parameters);
}
