import { type CallOptions, createContext, type Log, type Principal, type Services } from "./access/context.js";
import type { Settings } from "./config.js";
import { invalid } from "./errors.js";
import { appRouter } from "./router.js";
import { openServices as open } from "./services.js";
import { operatorName } from "./texts.js";
import { createCallerFactory } from "./trpc.js";
import { isUuid } from "./values.js";

export type { CallOptions, Principal, Services } from "./access/context.js";
// Everything a program needs to call the core in process.
export { readSettings, SettingsError } from "./config.js";
export { SecretsRejected } from "./encryption.js";
export { ServiceError } from "./errors.js";

/** See `openServices` in `services.ts`. */
export const openServices: (
  settings: Settings,
  log: Pick<Log, "warn">,
) => Promise<{ services: Services; close(): Promise<void> }> = open;

const factory = createCallerFactory(appRouter);

/**
 * Returns the procedures as functions: `createCaller(services, { kind: "user", userId }).forms.create({ … })`. Calls run
 * with the scope of `principal` and throw ServiceError.
 */
export const createCaller = (services: Services, principal: Principal | null, options?: CallOptions) =>
  factory(createContext(services, normalize(principal), options));

export type Caller = ReturnType<typeof createCaller>;

/** Lower-cases the user id. A malformed id means no principal. Throws VALIDATION_ERROR about an operator's name that cannot be stored. */
function normalize(principal: Principal | null): Principal | null {
  if (!principal) return null;
  if (principal.kind === "guest") return principal;
  if (principal.kind === "operator")
    return principal.name ? { ...principal, name: checkName(principal.name) } : principal;
  return isUuid(principal.userId) ? { ...principal, userId: principal.userId.toLowerCase() } : null;
}

function checkName(name: string): string {
  const { data, error } = operatorName.safeParse(name);
  if (error) throw invalid([{ field: "name", issue: error.issues[0]?.message ?? "is not valid" }]);
  return data;
}
