import type { z } from "zod";
import type { Call, OperatorContext } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import { MAX_LIMIT } from "../constants.js";
import { revokeKeysOfUser } from "../keys/store.js";
import { findWithoutOwner, removeMembershipsOfUser } from "../memberships/store.js";
import { ERASED_EMAIL, getUser } from "../users/store.js";
import { deleteEndpoint, listEndpoints } from "../webhooks/endpoints.js";
import type { erasedUser, eraseUserInput } from "./schema.js";

// Waits for transactions that give the user a key or a membership. Later ones find no user (`lockUsers`).
const LOCK = "SELECT id FROM users WHERE id = $1::uuid FOR UPDATE";

const ERASE = `
  UPDATE users SET email = ${ERASED_EMAIL}, name = NULL, external_id = NULL WHERE id = $1::uuid`;

/** The keys and the address go together, after the memberships: until then a failure leaves a user whom the address finds. */
export async function eraseUser({
  ctx,
  input: { id, dryRun },
}: Call<typeof eraseUserInput, OperatorContext>): Promise<z.output<typeof erasedUser>> {
  await getUser({ ctx, input: { id } });
  if (dryRun) return planErasure(ctx, id);
  const removed = await removeMembershipsOfUser(ctx, id);
  const revokedKeys = await ctx.services.db.sqlTransaction(async (tx) => {
    await tx.query("lock-user-to-erase", LOCK, [id]);
    const revoked = await revokeKeysOfUser(tx, ctx, id);
    await tx.query("erase-user", ERASE, [id]);
    await audit(tx, ctx, "user.erased", id);
    return revoked;
  });
  // Those that were set meanwhile.
  const added = await removeMembershipsOfUser(ctx, id);
  await deleteEndpointsOf(ctx, id);
  const listingIds = [...removed, ...added];
  const listingsWithoutOwner = await findWithoutOwner(ctx, listingIds);
  return { id, revokedKeys, removedMemberships: listingIds.length, listingsWithoutOwner };
}

const PLAN = `
  SELECT (SELECT count(*)::int FROM api_keys WHERE user_id = $1::uuid AND revoked_at IS NULL) AS "revokedKeys",
    (SELECT count(*)::int FROM memberships WHERE user_id = $1::uuid) AS "removedMemberships",
    ARRAY(
      SELECT m.listing_id::text FROM memberships m
      WHERE m.user_id = $1::uuid AND (
        SELECT count(*) FROM memberships o
        WHERE o.listing_id = m.listing_id AND o.role = 'OWNER' AND o.user_id <> m.user_id) = 0
      ORDER BY 1) AS "listingsWithoutOwner"`;

async function planErasure({ services }: OperatorContext, id: string): Promise<z.output<typeof erasedUser>> {
  const [plan] = await services.db.query<Omit<z.output<typeof erasedUser>, "id">>("plan-user-erasure", PLAN, [id]);
  if (!plan) throw new Error("a query without FROM returned no row");
  return { id, ...plan };
}

/** Deletes the webhook endpoints of a user that is erased, who can create no other. */
async function deleteEndpointsOf(ctx: OperatorContext, userId: string): Promise<void> {
  const { items } = await listEndpoints({ ctx, input: { userId, limit: MAX_LIMIT } });
  for (const { id } of items) await deleteEndpoint({ ctx, input: { id } });
}
