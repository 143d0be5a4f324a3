import { z } from "zod";
import { operatorProcedure, router } from "../trpc.js";
import { getTrace, listAuditEntries } from "./queries.js";
import { auditEntry, trace, traceInput, trailInput } from "./schema.js";

export const auditRouter = router({
  /** What happened to a form, or to a listing, key or user; newest first. Operator. */
  trail: operatorProcedure
    .input(trailInput)
    .output(z.array(auditEntry))
    .query(({ ctx, input }) => listAuditEntries(ctx, input)),
  /** What the request or call with this correlation id did. Operator. */
  trace: operatorProcedure
    .input(traceInput)
    .output(trace)
    .query(({ ctx, input }) => getTrace(ctx, input.correlationId)),
});
