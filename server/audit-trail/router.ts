import { z } from "zod";
import { operatingProcedure, router } from "../trpc.js";
import { traceOf, trailOf } from "./queries.js";
import { auditEntry, trace, traceInput, trailInput } from "./schema.js";

export const auditRouter = router({
  /** What happened to a form, or to a listing, key or user; newest first. Operator. */
  trail: operatingProcedure
    .input(trailInput)
    .output(z.array(auditEntry))
    .query(({ ctx, input }) => trailOf(ctx, input)),
  /** What the request or call with this correlation id did. Operator. */
  trace: operatingProcedure
    .input(traceInput)
    .output(trace)
    .query(({ ctx, input }) => traceOf(ctx, input.correlationId)),
});
