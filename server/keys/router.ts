import { operatorProcedure, router } from "../trpc.js";
import {
  issuedKey,
  issueInput,
  keyPage,
  keySummary,
  listInput,
  revokeInput,
  rotatedKey,
  rotateInput,
} from "./schema.js";
import { issueKey, listKeys, revokeKey, rotateKey } from "./store.js";

export const keysRouter = router({
  /** Issues a key to a user. The key is returned only once. Operator. Errors: VALIDATION_ERROR. */
  issue: operatorProcedure
    .input(issueInput)
    .output(issuedKey)
    .mutation(({ ctx, input }) => issueKey(ctx, input)),
  /**
   * Lists all keys or one user's, oldest first, without the keys themselves. Operator. Errors: INVALID_CURSOR,
   * VALIDATION_ERROR.
   */
  list: operatorProcedure
    .input(listInput)
    .output(keyPage)
    .query(({ ctx, input }) => listKeys(ctx, input)),
  /** Revokes a key. Operator. Errors: RESOURCE_NOT_FOUND. */
  revoke: operatorProcedure
    .input(revokeInput)
    .output(keySummary)
    .mutation(({ ctx, input }) => revokeKey(ctx, input.id)),
  /** Replaces a key; the old one works for a grace period. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR. */
  rotate: operatorProcedure
    .input(rotateInput)
    .output(rotatedKey)
    .mutation(({ ctx, input }) => rotateKey(ctx, input)),
});
