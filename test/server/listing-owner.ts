import type { Principal, Services } from "../../server/context.js";
import type { FormBody } from "../../server/forms/schema.js";
import { createFormWithOutcome, fixedStay, makeListing, makeUser } from "../factories.js";

/** What the holder's listings have led to, by table. */
export interface RowCounts {
  forms: number;
  creations: number;
  keys: number;
  jobs: number;
  audit: number;
}

export interface ListingOwner {
  userId: string;
  principal: Principal;
  listingId: string;
  /** A body for the listing, with an address to notify. */
  body: FormBody;
  /** Creates as this holder. */
  create(
    body: FormBody,
    idempotencyKey?: string,
    on?: Services,
  ): Promise<Awaited<ReturnType<typeof createFormWithOutcome>>>;
  countRows(): Promise<RowCounts>;
}

/** A user with a listing of their own; `listing` are fields of it. */
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
    create: (body, idempotencyKey, on = services) =>
      createFormWithOutcome(on, principal, body, { idempotencyKey }),
    async countRows() {
      const { rows } = await services.db.pool.query<RowCounts>(TRACES, [userId]);
      return rows[0] as RowCounts;
    },
  };
}

const TRACES = `
  WITH mine AS (
    SELECT f.id FROM forms f JOIN memberships m ON m.listing_id = f.listing_id WHERE m.user_id = $1
  )
  SELECT (SELECT count(*)::int FROM mine) AS forms,
    (SELECT count(*)::int FROM creations WHERE holder_id = $1) AS creations,
    (SELECT count(*)::int FROM idempotency_keys WHERE holder_id = $1) AS keys,
    (SELECT count(*)::int FROM notifications WHERE form_id IN (SELECT id FROM mine)) AS jobs,
    (SELECT count(*)::int FROM audit_entries WHERE subject_id IN (SELECT id FROM mine)) AS audit`;
