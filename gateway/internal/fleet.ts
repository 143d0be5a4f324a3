import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { startInternal } from "./app.js";
import { createMetrics } from "./metrics.js";
import { watchWorkers } from "./metrics-fleet.js";

/** Few tools call at a time; the workers need the connections. */
const POOL_SIZE = 3;

/** Of the primary of several processes: opens the internal port for all; nothing where INTERNAL_TOKEN is unset. */
export async function startFleetInternal(
  settings: Settings,
  log: Logger,
): Promise<{ url: string; stop(): Promise<void> } | undefined> {
  if (!settings.INTERNAL_TOKEN) return undefined;
  const metrics = createMetrics();
  const { services, close } = await openServices({ ...settings, DATABASE_POOL_SIZE: POOL_SIZE }, log, {
    onFailure: metrics.onDatabaseError,
  });
  metrics.watchPool(services.db.pool);
  try {
    const internal = await startInternal({ services, log, metrics, others: watchWorkers() });
    return internal && { url: internal.url, stop: () => internal.stop().finally(close) };
  } catch (error) {
    await close();
    throw error;
  }
}
