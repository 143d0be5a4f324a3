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

const FIGURES_TTL_MS = 5_000;
const HEALTH_TTL_MS = 15_000;

export type ConsoleRouter = ReturnType<typeof createConsoleRouter>;

/** The procedures that the pages call: those of the service without imports, erasure and rotation, and those of the first page. */
export function createConsoleRouter(services: Services, history: History) {
  const { db, settings } = services;
  const readFigures = memoize(FIGURES_TTL_MS, () =>
    Promise.all([
      readQueueFigures(db)
        .then(({ counts, longestWait }) => ({ counts, longestWaitSeconds: longestWait }))
        .catch(nullInOutage),
      readDeliveryFigures(db)
        .then(({ overdue, longestWait, ...figures }) => ({ ...figures, longestWaitSeconds: longestWait }))
        .catch(nullInOutage),
    ]),
  );
  const checkHealth = memoize(HEALTH_TTL_MS, async () => {
    const { examine, CHECK_NAMES } = await import("../doctor/examine.js");
    // One process does not know how many connections the fleet opens.
    const names = CHECK_NAMES.filter((name) => name !== "connections");
    const checks = await examine({ settings, env: process.env, processes: 1, worker: false }, names, db);
    return { checkedAt: new Date().toISOString(), ok: checks.every(({ status }) => status !== "failed"), checks };
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
      /** What this process served in the last hour, and what waits to be sent: null if the database did not answer. Operator. */
      overview: operatorProcedure.query(async () => {
        const [minutes, [emails, deliveries]] = await Promise.all([history.read(), readFigures()]);
        return { version: PACKAGE.version, node: process.version, startedAt, history: minutes, emails, deliveries };
      }),
      /** The report of `guest-forms doctor` for this process, at most 15 s old. Operator. */
      health: operatorProcedure.query(checkHealth),
    }),
  });
}

function nullInOutage(error: unknown): null {
  if (toServiceError(error).status !== 503) throw error;
  return null;
}

/** Calls `work` once for all calls until its result is `ttlMs` old. */
function memoize<Result>(ttlMs: number, work: () => Promise<Result>): () => Promise<Result> {
  let result: Promise<Result> | undefined;
  const expire = () => {
    result = undefined;
  };
  return () => {
    result ??= work().finally(() => setTimeout(expire, ttlMs).unref());
    return result;
  };
}
