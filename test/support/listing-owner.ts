import type { Principal, Services } from "../../server/access/context.js";
import type { FormBody } from "../../server/forms/schema.js";
import { asUser, createFormWithOutcome, makeForm, makeListing, makeUser } from "./factories.js";
import { fixedStay } from "./stays.js";

/** Number of rows per table that belong to an owner or to forms on their listings. */
export const NO_ROWS = { forms: 0, creations: 0, keys: 0, emails: 0, audit: 0 };
/** After one create of `body`, without an Idempotency-Key. */
export const ONE_FORM: typeof NO_ROWS = { forms: 1, creations: 1, keys: 0, emails: 1, audit: 1 };

export type ListingOwner = Awaited<ReturnType<typeof makeListingOwner>>;

/** Creates a user with a listing. `listing` overrides its fields. */
export async function makeListingOwner(services: Services, listing: Parameters<typeof makeListing>[2] = {}) {
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId, listing);
  const principal: Principal = { kind: "user", userId };
  return {
    userId,
    principal,
    listingId,
    /** A valid body for the listing, with a guest email. */
    body: fixedStay(listingId, { guestEmail: "guest@example.com" }),
    /** Creates a form as this user, by default on the services given to `makeListingOwner`. */
    create: (body: FormBody, idempotencyKey?: string, on = services) =>
      createFormWithOutcome(on, principal, body, { idempotencyKey }),
    /** The procedures of forms, called as this user. */
    forms: asUser(services, userId).forms,
    /** Creates a form on the listing. The dates are unique by default, so it is never a replay. */
    addForm: (overrides?: Partial<FormBody>) => makeForm(services, userId, listingId, overrides),
    /** Creates another listing of this user. */
    addListing: (overrides?: typeof listing) => makeListing(services, userId, overrides),
    async countRows(): Promise<typeof NO_ROWS> {
      return (await services.db.pool.query(ROW_COUNTS, [userId])).rows[0];
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
    (SELECT count(*)::int FROM emails WHERE form_id IN (SELECT id FROM mine)) AS emails,
    (SELECT count(*)::int FROM audit_entries WHERE subject_id IN (SELECT id FROM mine)) AS audit`;
