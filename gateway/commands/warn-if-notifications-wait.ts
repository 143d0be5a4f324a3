import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { whyNotificationsWait } from "../../server/worker.js";

/** For commands that start a worker: called once per command, not once per process. */
export function warnIfNotificationsWait(settings: Settings, log: Logger): void {
  const reason = whyNotificationsWait(settings);
  if (reason) log.warn({}, `notifications wait: ${reason}`);
}
