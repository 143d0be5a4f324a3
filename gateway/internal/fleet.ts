import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { startInternal } from "./app.js";
import { collectWorkerMetrics } from "./fleet-metrics.js";
import { createMetrics } from "./metrics.js";

/** Few connections, because only a few tools call at a time, and the workers need them. A user gets one. */
const POOL = { DATABASE_POOL_SIZE: 3, DATABASE_CONNECTIONS_PER_HOLDER: 1 };

/** Runs in the primary: opens the internal port for all workers. Does nothing if INTERNAL_TOKEN is unset. */
export async function startFleetInternal(
  settings: Settings,
  log: Logger,
): Promise<{ url: string; stop(): Promise<void> } | undefined> {
  if (!settings.INTERNAL_TOKEN) return undefined;
  const metrics = createMetrics();
  const { services, close } = await openServices({ ...settings, ...POOL }, log, {
    onFailure: metrics.onDatabaseError,
  });
  metrics.watchPool(services.db.pool);
  metrics.watchHolders(services.holderLimit);
  try {
    const internal = await startInternal({ services, log, metrics, readOthers: collectWorkerMetrics() });
    return internal && { url: internal.url, stop: () => internal.stop().finally(close) };
  } catch (error) {
    await close();
    throw error;
  }
}
