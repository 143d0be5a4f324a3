import type { Context, Holder } from "../context.js";
import { notFound } from "../errors.js";
import { inLines, type Json, type JsonRow, linesOf } from "../json.js";
import { keyset, type Page, page } from "../paging.js";
import { membershipInScope } from "../scope.js";
import { isUuid } from "../values.js";
import type { FormV1 } from "./schema.js";
import { settle } from "./settle.js";

type HolderContext = Context & { principal: Holder };

export const ONE = `
  SELECT f.json
  FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
  WHERE f.id = $2::uuid AND ${membershipInScope("$1")}`;

/** The form, if it is on a listing in scope. */
export async function getForm({ services, principal }: HolderContext, id: string) {
  if (!isUuid(id)) throw notFound();
  const [row] = await services.db.query<JsonRow<FormV1>>("form", ONE, [principal.userId, id]);
  if (!row) throw notFound();
  return row.json;
}

export function listForms(
  { services, principal }: HolderContext,
  input: { limit: number; cursor?: string | undefined; listingId?: string | undefined },
): Promise<Json<Page<FormV1>>> {
  const { db, keyring } = services;
  return page<FormV1>({
    keys: keyring.cursor,
    identity: { list: "forms", listingId: input.listingId },
    limit: input.limit,
    cursor: input.cursor,
    read: async (after, take) => {
      const values = [principal.userId, ...keyset(after), take];
      return linesOf(
        input.listingId === undefined
          ? await db.query("forms-in-scope", IN_SCOPE, values)
          : await db.query("forms-on-listing", ON_LISTING, [...values, input.listingId]),
      );
    },
    settle: async (createdAt) => {
      const isRecent = Date.parse(createdAt) > Date.now() - RECENT_MS;
      if (isRecent) await settle(db, createdAt);
      return isRecent;
    },
  });
}

/** Far longer than any create lasts (minutes, if its statement may) and than this clock is off from the database's. */
const RECENT_MS = 3_600_000;

const AFTER = (form: string) => `(${form}.created_at, ${form}.id) > ($2::timestamptz, $3::uuid)`;

const ON_LISTING = inLines(`
  SELECT f.json
  FROM forms f
  WHERE f.listing_id = $5::uuid AND ${AFTER("f")}
    AND EXISTS (SELECT FROM memberships m WHERE ${membershipInScope("$1")} AND m.listing_id = $5::uuid)
  ORDER BY f.created_at, f.id
  LIMIT $4::int`);

/**
 * Forms on all listings in scope: one range of an index that has them in order for each holder. Triggers keep it, and
 * with it the scope, exact. The forms are looked up one by one, as far as the page goes: a plan for all would read all.
 */
export const IN_SCOPE = inLines(`
  SELECT f.json
  FROM scoped_forms s
  CROSS JOIN LATERAL (SELECT json FROM forms WHERE id = s.form_id LIMIT 1) f
  WHERE s.user_id = $1::uuid AND (s.created_at, s.form_id) > ($2::timestamptz, $3::uuid)
  ORDER BY s.created_at, s.form_id
  LIMIT $4::int`);
