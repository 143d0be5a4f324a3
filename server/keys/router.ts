import { operatorProcedure, router } from "../trpc.js";
import * as schema from "./schema.js";
import { findKey, issueKey, listKeys, revokeKey, rotateKey } from "./store.js";

export const keysRouter = router({
  /** Issues a key to a user. The key is returned only once. Operator. Errors: VALIDATION_ERROR. */
  issue: operatorProcedure.input(schema.issueInput).output(schema.issuedKey).mutation(issueKey),
  /**
   * Lists all keys or one user's, oldest first, with revoked and expired ones, without the keys themselves. Operator. Errors: INVALID_CURSOR,
   * VALIDATION_ERROR.
   */
  list: operatorProcedure.input(schema.listInput).output(schema.keyPage).query(listKeys),
  /**
   * A key by id, by its first 12 characters, or by the whole key, such as one that has leaked. A mutation, because the input of a
   * query would be in the URL. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (several keys begin so).
   */
  find: operatorProcedure.input(schema.findInput).output(schema.keySummary).mutation(findKey),
  /** Revokes a key; one already revoked keeps its `revokedAt`. Operator. Errors: RESOURCE_NOT_FOUND. */
  revoke: operatorProcedure.input(schema.revokeInput).output(schema.keySummary).mutation(revokeKey),
  /**
   * Issues a key with the old one's holder, mode, label and expiry. The old key expires after the grace period, or at its own
   * expiry if that is sooner. Operator. Errors: RESOURCE_NOT_FOUND, VALIDATION_ERROR (it is revoked, expired or already
   * rotated).
   */
  rotate: operatorProcedure.input(schema.rotateInput).output(schema.rotatedKey).mutation(rotateKey),
});
