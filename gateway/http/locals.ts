import type { InAppPrincipal, KeyPrincipal } from "../../server/context.js";
import type { Deadline } from "./deadline.js";
import type { Input } from "./input.js";
import type { Operation } from "./operations.js";

declare global {
  namespace Express {
    /** What the middleware of one request share. Each is set in one place. */
    interface Locals {
      /** `correlate` */
      correlationId: string;
      /** `limitTime` */
      deadline: Deadline;
      /** `authenticate` */
      principal: KeyPrincipal;
      /** The route that matched; for logs, metrics and traces. */
      operation?: Operation;
      /** `readBody`; absent if the operation takes no body. */
      body?: Input;
      /** Internal port: the principal a call is made as. */
      actor?: InAppPrincipal;
      /** Internal port: the procedure that is called, "batch" or "none". */
      called?: string;
    }
  }
}
