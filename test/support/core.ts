import type { Services } from "../../server/access/context.js";
import { asKey, asOperator, asUser, listEmails, makeKey, makeUser, openTestServices, setRole } from "./factories.js";
import { makeListingOwner } from "./listing-owner.js";
import { holdLock, waitForBlocked } from "./locks.js";

/**
 * Opens the core, by default on a new database, with a user who owns a listing, and with the helpers that act on it.
 * `env` overrides settings.
 */
export async function openTestCore(env: Record<string, string> = {}) {
  const services = await openTestServices(env);
  const onServices =
    <Args extends unknown[], Result>(helper: (services: Services, ...args: Args) => Result) =>
    (...args: Args) =>
      helper(services, ...args);
  return {
    services,
    owner: await makeListingOwner(services),
    operator: asOperator(services),
    makeOwner: onServices(makeListingOwner),
    makeUser: onServices(makeUser),
    makeKey: onServices(makeKey),
    setRole: onServices(setRole),
    asUser: onServices(asUser),
    asKey: onServices(asKey),
    listUnsent: onServices(listEmails),
    holdLock: onServices(holdLock),
    waitForBlocked: onServices(waitForBlocked),
    /** Runs SQL outside the service, and returns the rows. */
    sql: async (text: string, ...values: unknown[]) => (await services.db.pool.query(text, values)).rows,
    /** Opens the core on the same database, as another process. */
    openProcess: (settings: Record<string, string> = {}) =>
      openTestServices({ ...settings, DATABASE_URL: services.db.url }),
    /** Starts `work`, waits until a lock of this statement blocks it, and commits the statement. */
    async runBehind<Result>([text, ...values]: [string, ...unknown[]], work: () => Promise<Result>) {
      const lock = await holdLock(services, text, values);
      const result = work();
      await waitForBlocked(services, 1);
      await lock.commit();
      return result;
    },
  };
}
