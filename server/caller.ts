import { type CallOptions, createContext, type Principal, type Services } from "./context.js";
import { appRouter } from "./router.js";
import { createCallerFactory } from "./trpc.js";

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
  factory(createContext(services, principal, options));

export type Caller = ReturnType<typeof createCaller>;
