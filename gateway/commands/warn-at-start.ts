import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { countConnections, TOO_MANY_CONNECTIONS } from "../doctor/connections.js";
import { misspelledSettings } from "../doctor/settings.js";
import { explain } from "./failure.js";
import { warnIfNotificationsWait } from "./warn-if-notifications-wait.js";

/** Warns once for all processes about problems that do not prevent the start. `doctor` checks more. */
export async function warnAtStart(
  settings: Settings,
  log: Logger,
  size: { processes: number; worker: boolean },
): Promise<void> {
  if (size.worker) warnIfNotificationsWait(settings, log);
  for (const { name, meant } of misspelledSettings(process.env)) {
    log.warn({ setting: name, meant }, "unknown setting, possibly misspelled");
  }
  try {
    const { services, close } = await openServices(settings, log);
    const { db } = services;
    const warn = async () => {
      const { needed, allowed } = await countConnections(db, settings, size);
      if (needed > allowed) log.warn({ needed, allowed }, TOO_MANY_CONNECTIONS);
    };
    await warn().finally(close);
  } catch (error) {
    log.warn(
      { reason: explain(error, { databaseUrl: settings.DATABASE_URL }).message },
      "the database is not ready",
    );
  }
}
