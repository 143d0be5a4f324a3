import { LRUCache } from "lru-cache";
import type { Services } from "../../server/access/context.js";
import { toServiceError } from "../../server/database/failures.js";
import { readDeliveryFigures, readEmailFigures } from "../../server/outbox/figures.js";
import { appRouter } from "../../server/router.js";
import { operatorProcedure, router } from "../../server/trpc.js";
import { PACKAGE } from "../runtime/package.js";
import type { History } from "./history.js";

const FIGURES_TTL_MS = 5_000;
const HEALTH_TTL_MS = 15_000;

export type ConsoleRouter = ReturnType<typeof createConsoleRouter>;

/** The procedures of the service without `onboarding`, `secrets` and those that erase, and those of the first page. */
export function createConsoleRouter(services: Services, history: History) {
  const { db, settings } = services;
  const readFigures = memoize(FIGURES_TTL_MS, () =>
    Promise.all([readEmailFigures(db).catch(nullInOutage), readDeliveryFigures(db).catch(nullInOutage)]),
  );
  let isDatabaseUp = true;
  const checkHealth = memoize(HEALTH_TTL_MS, async () => {
    const { examine, CHECK_NAMES } = await import("../doctor/examine.js");
    // One process does not know how many connections the fleet opens.
    const names = CHECK_NAMES.filter((name) => name !== "connections");
    const checks = await examine({ settings, env: process.env, processes: 1, worker: false }, names, db);
    return { checkedAt: new Date().toISOString(), checks };
  });
  const startedAt = new Date().toISOString();
  return router({
    forms: appRouter.forms,
    listings: appRouter.listings,
    users: appRouter.users,
    members: appRouter.members,
    keys: appRouter.keys,
    emails: appRouter.emails,
    audit: appRouter.audit,
    webhooks: appRouter.webhooks,
    find: appRouter.find,
    console: router({
      /** What this process served in the last hour, and what waits to be sent: null if the database did not answer. Operator. */
      overview: operatorProcedure.query(async () => {
        const [minutes, [emails, deliveries]] = await Promise.all([history.read(), readFigures()]);
        isDatabaseUp = emails !== null && deliveries !== null;
        return { version: PACKAGE.version, node: process.version, startedAt, history: minutes, emails, deliveries };
      }),
      /**
       * The report of `guest-forms doctor` for this process, at most 15 s old, and not from before an outage of the database
       * that the overview shows. Operator.
       */
      health: operatorProcedure.query(() => checkHealth(isDatabaseUp ? "" : "outage")),
    }),
  });
}

function nullInOutage(error: unknown): null {
  if (toServiceError(error).status !== 503) throw error;
  return null;
}

/** Runs `work` once for concurrent calls with the same key, and again once its result is `ttl` ms old. */
function memoize<Result extends object>(ttl: number, work: () => Promise<Result>): (key?: string) => Promise<Result> {
  const cache = new LRUCache<string, Result>({ max: 2, ttl, fetchMethod: work });
  return (key = "") => cache.forceFetch(key);
}
