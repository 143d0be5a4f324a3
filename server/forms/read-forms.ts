import type { z } from "zod";
import type { Call, ScopedContext } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import type { Sql } from "../database/db.js";
import { notFound } from "../errors.js";
import { type KeysetValues, type Page, readPage } from "../resources/paging.js";
import { FORM_COLUMNS, type FormRow, projectForm, selectForm, selectForms } from "./queries.js";
import type { FormV1, getInput, listAllInput, listInput } from "./schema.js";

export const getForm = ({ ctx, input }: Call<typeof getInput, ScopedContext>): Promise<FormV1> =>
  selectForm(ctx.services.db, ctx.principal.userId, input.id);

export function listForms({ ctx, input }: Call<typeof listInput, ScopedContext>): Promise<Page<FormV1>> {
  const { principal, signal } = ctx;
  const { db, settings, inFlightCreates } = ctx.services;
  const { listingId } = input;
  return readPage(ctx, input, {
    identity: { list: "forms", listingId },
    order: "oldest first",
    read: (page) => selectForms(db, principal.userId, page, settings.LIST_SETTLE_SECONDS, listingId),
    project: projectForm,
    waitForEarlierRows: async ({ mayHavePredecessors }) => {
      if (mayHavePredecessors) await inFlightCreates.wait(signal);
      return mayHavePredecessors;
    },
  });
}

// Forms as the operator reads them, not limited by scope.

type Filter = Pick<z.output<typeof listAllInput>, "listingId" | "userId">;

const GET_ANY = `SELECT ${FORM_COLUMNS} FROM forms f WHERE f.id = $1::uuid`;

const newestForms = (condition: string) => `
  SELECT ${FORM_COLUMNS}
  FROM forms f
  WHERE ${condition} (f.created_at, f.id) < ($1::timestamptz, $2::uuid)
  ORDER BY f.created_at DESC, f.id DESC
  LIMIT $3::int`;

const NEWEST = newestForms("");
const NEWEST_ON_LISTING = newestForms("f.listing_id = $4::uuid AND");
const NEWEST_ON_LISTING_OF_USER = newestForms(`f.listing_id = $4::uuid
    AND EXISTS (SELECT FROM memberships m WHERE ${membershipInScope("$5")} AND m.listing_id = $4::uuid) AND`);
const NEWEST_OF_USER = `
  SELECT ${FORM_COLUMNS}
  FROM scoped_forms s
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = s.form_id LIMIT 1) f
  WHERE s.user_id = $4::uuid AND (s.created_at, s.form_id) < ($1::timestamptz, $2::uuid)
  ORDER BY s.created_at DESC, s.form_id DESC
  LIMIT $3::int`;

function selectNewestForms(sql: Sql, page: KeysetValues, { listingId, userId }: Filter): Promise<FormRow[]> {
  if (listingId === undefined && userId === undefined) return sql.query("newest-forms", NEWEST, page);
  if (listingId === undefined) return sql.query("newest-forms-of-user", NEWEST_OF_USER, [...page, userId]);
  if (userId === undefined) return sql.query("newest-forms-on-listing", NEWEST_ON_LISTING, [...page, listingId]);
  const values = [...page, listingId, userId];
  return sql.query("newest-forms-on-listing-of-user", NEWEST_ON_LISTING_OF_USER, values);
}

export async function getAnyForm({ ctx, input }: Call<typeof getInput>): Promise<FormV1> {
  const [row] = await ctx.services.db.query<FormRow>("any-form", GET_ANY, [input.id]);
  if (!row) throw notFound("form");
  return projectForm(row);
}

export function listAllForms({ ctx, input }: Call<typeof listAllInput>): Promise<Page<FormV1>> {
  const { db } = ctx.services;
  const { listingId, userId } = input;
  return readPage(ctx, input, {
    identity: { list: "all forms", listingId, userId },
    order: "newest first",
    // No index sorts all forms, because it would slow down creates. Without a filter, a page reads all forms and may hit
    // the statement timeout.
    read: (page) => selectNewestForms(db, page, input),
    project: projectForm,
  });
}
