import type { z } from "zod";
import type { Call } from "../access/context.js";
import { audit } from "../audit.js";
import { queryIn } from "../database/db.js";
import { revokeKeysOfUser } from "../keys/store.js";
import { removeMembershipsOfUser } from "../memberships/store.js";
import { getUser } from "../users/store.js";
import type { erasedUser, eraseUserInput } from "./schema.js";

// The address is unique and not null. No address ends with `.invalid` (RFC 2606).
const ERASE = `
  UPDATE users SET email = id || '@erased.invalid', name = NULL, external_id = NULL WHERE id = $1::uuid`;

/** The address goes last, so that after a failure the user can still be found by it. */
export async function eraseUser({
  ctx,
  input: { id },
}: Call<typeof eraseUserInput>): Promise<z.output<typeof erasedUser>> {
  await getUser({ ctx, input: { id } });
  const revokedKeys = await revokeKeysOfUser(ctx, id);
  const removedMemberships = await removeMembershipsOfUser(ctx, id);
  await ctx.services.db.transaction(async (tx) => {
    await queryIn(tx, "erase-user", ERASE, [id]);
    await audit(tx, ctx, "user.erased", id);
  });
  return { id, revokedKeys, removedMemberships };
}
