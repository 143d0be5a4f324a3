import { setTimeout as sleep } from "node:timers/promises";
import { waitAtMost } from "../../server/timeout.js";
import { readSettingsWithDatabase } from "../cli/environment.js";
import type { Print } from "../cli/print.js";
import { CLOSE_TIMEOUT_SECONDS } from "../runtime/listening.js";
import { createLog, flushLogs, logCrash } from "../runtime/log.js";
import { type Address, applyAddress, startListening } from "./start-listening.js";
import { listenForStop } from "./stopping.js";
import { warnAtStart } from "./worker.js";

interface ServeOptions extends Address {
  /** Whether to run the worker. */
  worker: boolean;
}

/** Serves until it is stopped by a signal. */
export async function serve(options: ServeOptions, print: Print): Promise<void> {
  const settings = applyAddress(readSettingsWithDatabase(), options);
  const log = createLog(settings.LOG_LEVEL);
  logCrash(log);
  const stop = listenForStop();
  const { worker } = options;
  // A start that then fails for lack of a migration has its reason in front.
  await warnAtStart(settings, log, { checks: ["schema"], worker: false });
  const gateway = await startListening(settings, log, worker);
  await warnAtStart(settings, log, { checks: ["settings", "links", "connections"], worker });
  await flushLogs();
  const { url } = gateway;
  print({ url }, `Listening on ${url}; API reference at ${url}/docs`);
  await stop.requested;
  gateway.markUnready();
  await sleep(settings.DRAIN_DELAY_SECONDS * 1000);
  await waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, gateway.stop());
  await flushLogs();
}
