import type { Context } from "../context.js";
import type { Sql } from "../db.js";
import { notFound } from "../errors.js";
import { descendingKeysetValues, type KeysetValues, type Page, readPage } from "../paging.js";
import { membershipInScope } from "../scope.js";
import { FORM_COLUMNS, type FormRow, projectForm } from "./queries.js";
import type { FormV1 } from "./schema.js";

// Forms as the operator reads them, not limited by scope.

interface Filter {
  listingId?: string | undefined;
  userId?: string | undefined;
}

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
  if (userId === undefined)
    return sql.query("newest-forms-on-listing", NEWEST_ON_LISTING, [...page, listingId]);
  const values = [...page, listingId, userId];
  return sql.query("newest-forms-on-listing-of-user", NEWEST_ON_LISTING_OF_USER, values);
}

export async function getAnyForm({ services }: Context, id: string): Promise<FormV1> {
  const [row] = await services.db.query<FormRow>("any-form", GET_ANY, [id]);
  if (!row) throw notFound("form");
  return projectForm(row);
}

/** A page of all forms, or of those on one listing, in one user's scope, or both; newest first. */
export async function listAllForms(
  { services: { db, keyring } }: Context,
  { limit, cursor, ...filter }: Filter & { limit: number; cursor?: string | undefined },
): Promise<Page<FormV1>> {
  const { items, nextCursor } = await readPage({
    limit,
    cursor,
    keys: keyring.cursor,
    identity: { list: "all forms", ...filter },
    // No index sorts all forms, because it would slow down creates. Without a filter, a page reads all forms and may hit the
    // statement timeout.
    read: (after, take) => selectNewestForms(db, descendingKeysetValues(after, take), filter),
  });
  return { items: items.map(projectForm), nextCursor };
}
