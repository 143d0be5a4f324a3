import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { whyNotificationsWait } from "../../server/worker.js";
import { examine } from "../doctor/examine.js";

/**
 * Warns about what does not prevent the start, with checks of `doctor`. If the database cannot be used, the start itself
 * says so.
 */
export async function warnAtStart(
  settings: Settings,
  log: Logger,
  { checks, worker }: { checks: ("settings" | "schema" | "connections")[]; worker: boolean },
): Promise<void> {
  const reports = await examine({ settings, env: process.env, processes: 1, worker }, checks);
  for (const { name, status, message } of reports) {
    if (name !== "database" && status !== "ok" && status !== "skipped") log.warn({ check: name }, message);
  }
  const reason = worker ? whyNotificationsWait(settings) : undefined;
  if (reason) log.warn({}, `notifications wait: ${reason}`);
}
