import type { Principal, Services } from "../../server/access/context.js";
import type { Caller } from "../../server/caller.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import { asUser, createFormWithOutcome, makeForm, makeListing, makeUser } from "./factories.js";
import { fixedStay } from "./stays.js";

/** Number of rows per table that belong to the owner or to forms on their listings. */
export interface RowCounts {
  forms: number;
  creations: number;
  keys: number;
  notifications: number;
  audit: number;
}

export const NO_ROWS: RowCounts = { forms: 0, creations: 0, keys: 0, notifications: 0, audit: 0 };
/** After one create of `body`, without an Idempotency-Key. */
export const ONE_FORM: RowCounts = { forms: 1, creations: 1, keys: 0, notifications: 1, audit: 1 };

export interface ListingOwner {
  userId: string;
  principal: Principal;
  listingId: string;
  /** A valid body for the listing, with a guest email. */
  body: FormBody;
  /** Creates a form as this user, by default on the services given to `makeListingOwner`. */
  create(
    body: FormBody,
    idempotencyKey?: string,
    on?: Services,
  ): Promise<Awaited<ReturnType<typeof createFormWithOutcome>>>;
  /** The procedures of forms, called as this user. */
  forms: Caller["forms"];
  /** Creates a form on the listing. The dates are unique by default, so it is never a replay. */
  addForm(overrides?: Partial<FormBody>): Promise<FormV1>;
  /** Creates another listing of this user. */
  addListing(overrides?: Parameters<typeof makeListing>[2]): Promise<Listing>;
  countRows(): Promise<RowCounts>;
}

/** Creates a user with a listing. `listing` overrides its fields. */
export async function makeListingOwner(
  services: Services,
  listing: Parameters<typeof makeListing>[2] = {},
): Promise<ListingOwner> {
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId, listing);
  const principal = { kind: "user", userId } as const;
  return {
    userId,
    principal,
    listingId,
    body: fixedStay(listingId, { guestEmail: "guest@example.com" }),
    create: (body, idempotencyKey, on = services) => createFormWithOutcome(on, principal, body, { idempotencyKey }),
    forms: asUser(services, userId).forms,
    addForm: (overrides) => makeForm(services, userId, listingId, overrides),
    addListing: (overrides) => makeListing(services, userId, overrides),
    async countRows() {
      const { rows } = await services.db.pool.query<RowCounts>(ROW_COUNTS, [userId]);
      return rows[0] as RowCounts;
    },
  };
}

const ROW_COUNTS = `
  WITH mine AS (
    SELECT f.id FROM forms f JOIN memberships m ON m.listing_id = f.listing_id WHERE m.user_id = $1
  )
  SELECT (SELECT count(*)::int FROM mine) AS forms,
    (SELECT count(*)::int FROM creations WHERE holder_id = $1) AS creations,
    (SELECT count(*)::int FROM idempotency_keys WHERE holder_id = $1) AS keys,
    (SELECT count(*)::int FROM notifications WHERE form_id IN (SELECT id FROM mine)) AS notifications,
    (SELECT count(*)::int FROM audit_entries WHERE subject_id IN (SELECT id FROM mine)) AS audit`;
