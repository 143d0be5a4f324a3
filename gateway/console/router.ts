import type { Settings } from "../../server/config.js";
import { readDeliveryFigures, readQueueFigures } from "../../server/outbox/figures.js";
import { appRouter } from "../../server/router.js";
import { mergeRouters, operatorProcedure, router } from "../../server/trpc.js";
import { PACKAGE } from "../process/package.js";
import type { History } from "./history.js";
import * as schema from "./schema.js";

const HEALTH_CACHE_MS = 15_000;

export type ConsoleRouter = ReturnType<typeof createConsoleRouter>;

/** The procedures that the console may call: all of the service, and what it shows on its first page. */
export function createConsoleRouter(history: History, settings: Settings, worker: boolean) {
  const checkHealth = shared(HEALTH_CACHE_MS, async () => {
    const { examine } = await import("../doctor/examine.js");
    const checks = await examine({ settings, env: process.env, processes: 1, worker });
    const ok = checks.every(({ status }) => status !== "failed");
    return { checkedAt: new Date().toISOString(), ok, checks };
  });
  const startedAt = new Date().toISOString();
  return mergeRouters(
    appRouter,
    router({
      console: router({
        /** What this process served in the last hour, and what waits to be sent. Operator. */
        overview: operatorProcedure.output(schema.overview).query(async ({ ctx: { services } }) => {
          const [minutes, emails, deliveries] = await Promise.all([
            history.read(),
            readQueueFigures(services.db),
            readDeliveryFigures(services.db),
          ]);
          return {
            version: PACKAGE.version,
            node: process.version,
            startedAt,
            history: minutes,
            emails: { counts: emails.counts, longestWaitSeconds: emails.longestWait },
            deliveries: { ...deliveries, longestWaitSeconds: deliveries.longestWait },
          };
        }),
        /** The report of `guest-forms doctor` for this process, of the last 15 s. Operator. */
        health: operatorProcedure.output(schema.health).query(checkHealth),
      }),
    }),
  );
}

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
