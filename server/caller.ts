import { type CallOptions, createContext, type Principal, type Services } from "./context.js";
import { appRouter } from "./router.js";
import { createCallerFactory } from "./trpc.js";
import { isUuid } from "./values.js";

// All that a program needs to call the core in process.
export { readSettings } from "./config.js";
export type { CallOptions, Principal, Services } from "./context.js";
export { ServiceError } from "./errors.js";
export { openServices } from "./services.js";

const factory = createCallerFactory(appRouter);

/**
 * The router as functions, in process: `caller(services, { kind: "user", userId }).forms.create({ … })`. Acts as
 * the principal it is given, with that principal's scope, and throws ServiceError.
 */
export const createCaller = (services: Services, principal: Principal | null, options?: CallOptions) =>
  factory(createContext(services, normalize(principal), options));

export type Caller = ReturnType<typeof createCaller>;

/** Two spellings of one id are one holder; what is no id is nobody's. */
function normalize(principal: Principal | null): Principal | null {
  if (!principal || principal.kind === "operator") return principal;
  return isUuid(principal.userId) ? { ...principal, userId: principal.userId.toLowerCase() } : null;
}
