import { ERASED_EMAIL } from "../users/store.js";

/**
 * SQL for a FROM clause: the first owner `u` of a listing, the host whom guests see and the tenant whose turn their emails take. No
 * row if the listing has no owner.
 */
export const firstOwnerOf = (listingId: string) => `(
  SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
  WHERE m.listing_id = ${listingId} AND m.role = 'OWNER' AND u.email <> u.${ERASED_EMAIL}
  ORDER BY u.created_at, u.id LIMIT 1) AS u`;
