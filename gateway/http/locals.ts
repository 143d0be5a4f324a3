import type { GuestPrincipal, InAppPrincipal, KeyPrincipal } from "../../server/access/context.js";
import type { Operation } from "../operations/operations.js";
import type { Deadline } from "./deadline.js";
import type { Input } from "./input.js";

declare global {
  namespace Express {
    /** State of one request, and the middleware that sets it. */
    interface Locals {
      /** `correlate` */
      correlationId: string;
      /** `correlate`: when the request arrived, by `performance.now()`. */
      arrivedAt: number;
      /** `admit`: whether it has waited too long before it began, or too many of its key waited; absent without a key. */
      isExcess?: boolean;
      /** `enforceTimeout` */
      deadline: Deadline;
      /** `authenticate` */
      principal: KeyPrincipal;
      /** `setOperation`; absent if no route matched. For logs, metrics and traces. */
      operation?: Operation;
      /** `readBody`; absent if the operation has no body. */
      body?: Input;
      /** Internal port: the principal a call is made as. */
      actor?: InAppPrincipal | GuestPrincipal;
      /** Internal port: name of the called procedure, "batch" or "none". */
      procedure?: string;
    }
  }
}
