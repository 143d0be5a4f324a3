import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { announceSecrets } from "../../server/secrets/uses.js";
import { waitAtMost } from "../../server/timeout.js";
import { startWorker, whyEmailsWait } from "../../server/worker.js";
import { readSettingsWithDatabase } from "../cli/environment.js";
import type { Print } from "../cli/print.js";
import { withServices } from "../cli/services.js";
import { examine } from "../doctor/examine.js";
import { CLOSE_TIMEOUT_SECONDS } from "../runtime/listening.js";
import { flushLogs, logCrash } from "../runtime/log.js";
import { listenForStop } from "./stopping.js";

/** Runs the worker until it is stopped by a signal. */
export async function runWorker(print: Print): Promise<void> {
  const stop = listenForStop();
  const settings = readSettingsWithDatabase();
  await withServices(settings, async (services, log) => {
    logCrash(log);
    await warnAtStart(settings, log, { checks: ["settings", "links", "schema"], worker: true });
    const worker = await startWorker(services, log);
    const secrets = announceSecrets(services);
    await flushLogs();
    const concurrency = whyEmailsWait(settings) ? 0 : settings.WORKER_CONCURRENCY;
    print({ concurrency }, `Sending emails, ${concurrency} at a time, and webhooks.`);
    await stop.requested;
    // A draining worker still uses its secrets.
    const stopped = worker.stop().then(secrets.stop);
    await waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, stopped);
  });
}

/**
 * Warns about what does not prevent the start, with checks of `doctor`. If the database cannot be used, the start itself
 * says so.
 */
export async function warnAtStart(
  settings: Settings,
  log: Logger,
  { checks, worker }: { checks: ("settings" | "links" | "schema" | "connections")[]; worker: boolean },
): Promise<void> {
  const reports = await examine({ settings, env: process.env, processes: 1, worker }, checks);
  for (const { name, status, message } of reports) {
    if (name !== "database" && status !== "ok" && status !== "skipped") log.warn({ check: name }, message);
  }
  const reason = worker ? whyEmailsWait(settings) : undefined;
  if (reason) log.warn({}, `emails wait: ${reason}`);
}
