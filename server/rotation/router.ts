import { operatorProcedure, router } from "../trpc.js";
import { reencryptBatch } from "./reencrypt.js";
import { reencryptInput, renewed, secretsStatus, statusInput } from "./schema.js";
import { countUses } from "./status.js";

export const secretsRouter = router({
  /**
   * Counts what needs each secret, and stores until when, for `doctor`. Takes as long as an erasure. Operator. Errors:
   * VALIDATION_ERROR (`APP_SECRETS`: another process has used a newer secret).
   */
  status: operatorProcedure
    .input(statusInput)
    .output(secretsStatus)
    .mutation(({ ctx }) => countUses(ctx)),
  /**
   * Renews one batch of what older secrets encrypted and fingerprinted, with the newest one. Call it with `next` until that is
   * null. Safe to repeat and to run more than once at the same time. Operator. Errors: VALIDATION_ERROR (as above).
   */
  reencrypt: operatorProcedure
    .input(reencryptInput)
    .output(renewed)
    .mutation(({ ctx, input }) => reencryptBatch(ctx, input.after)),
});
