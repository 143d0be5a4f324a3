import { operatorProcedure, router } from "../trpc.js";
import { reencryptBatch } from "./reencrypt.js";
import * as schema from "./schema.js";
import { countUses } from "./status.js";
import { findProcessesWithout } from "./uses.js";

export const secretsRouter = router({
  /**
   * Counts what needs each secret that is listed or still needed, and stores until when, for `doctor`. Takes as long as an erasure. Operator. Errors:
   * VALIDATION_ERROR (`APP_SECRETS`: another process has used a newer secret).
   */
  status: operatorProcedure.input(schema.statusInput).output(schema.secretsStatus).mutation(countUses),
  /** The secrets of processes that run, or did in the last minute, and lack the newest secret of this one. Operator. */
  outdated: operatorProcedure
    .input(schema.outdatedInput)
    .output(schema.outdated)
    .query(async ({ ctx: { services } }) => ({
      processes: await findProcessesWithout(services.db, services.keyring.ids[0]),
    })),
  /**
   * Renews one batch of what older secrets encrypted and fingerprinted, with the newest one. Call it with `next` until that is
   * null. Safe to repeat and to run more than once at the same time. Operator. Errors: VALIDATION_ERROR (as above).
   */
  reencrypt: operatorProcedure.input(schema.reencryptInput).output(schema.renewed).mutation(reencryptBatch),
});
