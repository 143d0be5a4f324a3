import type { Principal, Services } from "../../server/context.js";
import type { FormBody } from "../../server/forms/schema.js";
import { createForm, makeListing, makeUser, stay } from "../factories.js";

/** What the holder's listings have led to, by table. */
export interface Traces {
  forms: number;
  creations: number;
  keys: number;
  jobs: number;
  audit: number;
}

export interface TestHolder {
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
  ): Promise<Awaited<ReturnType<typeof createForm>>>;
  traces(): Promise<Traces>;
}

/** A user with a listing of their own; `listing` are fields of it. */
export async function makeHolder(
  services: Services,
  listing: Parameters<typeof makeListing>[2] = {},
): Promise<TestHolder> {
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId, listing);
  const principal = { kind: "user", userId } as const;
  return {
    userId,
    principal,
    listingId,
    body: stay(listingId, { guestEmail: "guest@example.com" }),
    create: (body, idempotencyKey, on = services) => createForm(on, principal, body, { idempotencyKey }),
    async traces() {
      const { rows } = await services.db.pool.query<Traces>(TRACES, [userId]);
      return rows[0] as Traces;
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
