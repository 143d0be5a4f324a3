import type { Services } from "../../server/access/context.js";
import { auditRouter } from "../../server/audit-trail/router.js";
import { toServiceError } from "../../server/database/failures.js";
import { formsRouter } from "../../server/forms/router.js";
import { keysRouter } from "../../server/keys/router.js";
import { listingsRouter } from "../../server/listings/router.js";
import { membersRouter } from "../../server/memberships/router.js";
import { notificationsRouter } from "../../server/notifications/router.js";
import { readDeliveryFigures, readQueueFigures } from "../../server/outbox/figures.js";
import { operatorProcedure, router } from "../../server/trpc.js";
import { usersRouter } from "../../server/users/router.js";
import { webhooksRouter } from "../../server/webhooks/router.js";
import { PACKAGE } from "../process/package.js";
import type { History } from "./history.js";
import * as schema from "./schema.js";

const FIGURES_CACHE_MS = 5_000;
const HEALTH_CACHE_MS = 15_000;

export type ConsoleRouter = ReturnType<typeof createConsoleRouter>;

/** The procedures that the pages call: those of the service without imports, erasure and rotation, and those of the first page. */
export function createConsoleRouter(services: Services, history: History) {
  const { db, settings } = services;
  const readFigures = shared(FIGURES_CACHE_MS, () =>
    Promise.all([nullInOutage(readQueueFigures(db)), nullInOutage(readDeliveryFigures(db))]),
  );
  const checkHealth = shared(HEALTH_CACHE_MS, async () => {
    const { examine, CHECK_NAMES } = await import("../doctor/examine.js");
    // How many connections a fleet opens, one process does not know.
    const names = CHECK_NAMES.filter((name) => name !== "connections");
    const checks = await examine({ settings, env: process.env, processes: 1, worker: false }, names, db);
    const ok = checks.every(({ status }) => status !== "failed");
    return { checkedAt: new Date().toISOString(), ok, checks };
  });
  const startedAt = new Date().toISOString();
  return router({
    forms: formsRouter,
    listings: listingsRouter,
    users: usersRouter,
    members: membersRouter,
    keys: keysRouter,
    notifications: notificationsRouter,
    audit: auditRouter,
    webhooks: webhooksRouter,
    console: router({
      /** What this process served in the last hour, and what waits to be sent. Operator. */
      overview: operatorProcedure.output(schema.overview).query(async () => {
        const [minutes, [emails, deliveries]] = await Promise.all([history.read(), readFigures()]);
        return {
          version: PACKAGE.version,
          node: process.version,
          startedAt,
          history: minutes,
          emails: emails && { counts: emails.counts, longestWaitSeconds: emails.longestWait },
          deliveries: deliveries && { ...deliveries, longestWaitSeconds: deliveries.longestWait },
        };
      }),
      /** The report of `guest-forms doctor` for this process, of the last 15 s. Operator. */
      health: operatorProcedure.output(schema.health).query(checkHealth),
    }),
  });
}

const nullInOutage = <Result>(reading: Promise<Result>): Promise<Result | null> =>
  reading.catch((error) => {
    if (toServiceError(error).status === 503) return null;
    throw error;
  });

/** Runs `work` once for all calls until `cacheMs` after it has ended. */
function shared<Result>(cacheMs: number, work: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<Result> | undefined;
  const forget = () => {
    running = undefined;
  };
  return () => {
    running ??= work().finally(() => setTimeout(forget, cacheMs).unref());
    return running;
  };
}
