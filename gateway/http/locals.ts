import type { InAppPrincipal, KeyPrincipal } from "../../server/context.js";
import type { FieldError } from "../../server/errors.js";
import type { Match, Operation } from "./operations.js";

declare global {
  namespace Express {
    /** What the middleware of one request tell each other. */
    interface Locals {
      correlationId: string;
      /** The exact path of the request target, without its query. */
      path: string;
      /** The raw query of the request target, without its question mark. */
      query: string;
      principal: KeyPrincipal;
      /** Of the internal port: for whom a call is made. */
      actor?: InAppPrincipal;
      /** Of the internal port: the procedure that is called, "batch" or "none". */
      called?: string;
      /** Milliseconds of the request's time that are used up. */
      spent?: number;
      /** Stops the request's time. */
      stopClock?: () => void;
      match: Match;
      operation?: Operation;
      /** The JSON object of a body. */
      body: Record<string, unknown>;
      /** It ran out of time and was answered so. */
      isOverdue?: boolean;
      /** What only HTTP can get wrong about a request; reported together with what the schema finds. */
      faults: FieldError[];
    }
  }
}
