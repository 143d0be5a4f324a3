import { z } from "zod";
import { operatorProcedure, router } from "../trpc.js";
import { getTrace, listAuditEntries } from "./queries.js";
import { auditEntry, trace, traceInput, trailInput } from "./schema.js";

export const auditRouter = router({
  /** Audit entries of a form, listing, key or user, newest first. Operator. */
  trail: operatorProcedure
    .input(trailInput)
    .output(z.array(auditEntry))
    .query(({ ctx, input }) => listAuditEntries(ctx, input)),
  /** Changes made by the request with this correlation id, in order. Operator. */
  trace: operatorProcedure
    .input(traceInput)
    .output(trace)
    .query(({ ctx, input }) => getTrace(ctx, input.correlationId)),
});
