import cluster from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { waitAtMost } from "../../server/timeout.js";
import { startFleetInternal } from "../internal/fleet.js";
import { type Fleet, runWorker, startFleet } from "../process/cluster.js";
import { createLog, flushLogs } from "../process/log.js";
import type { Gateway } from "../serve.js";
import { settingsWithDatabase } from "./environment.js";
import { type Address, addressed, CLOSING_SECONDS, listening, opening } from "./listening.js";
import { askedOrRefused, warnIfPending } from "./pending-migrations.js";
import { print } from "./print.js";
import { warnOfStoredSecret } from "./services.js";
import { stopRequest } from "./stopping.js";
import { warnAtStart } from "./warn-at-start.js";

export interface ServeOptions extends Address {
  /** Whether to send notifications too. */
  worker: boolean;
  /** Processes that share the port. */
  workers?: number;
}

/** Serves until a signal asks to stop; as one of several workers, until their primary does. */
export async function serve(options: ServeOptions, command: Command): Promise<void> {
  const settings = addressed(settingsWithDatabase(), options);
  const log = createLog(settings.LOG_LEVEL);
  if (!cluster.isWorker) warnOfStoredSecret(settings, log);
  if (cluster.isWorker) await serveAsWorker(settings, log, options.worker);
  else if (options.workers) await serveByWorkers(settings, log, options.workers, options.worker, command);
  else await serveAlone(settings, log, options.worker, command);
}

async function serveAlone(settings: Settings, log: Logger, worker: boolean, command: Command): Promise<void> {
  const stop = stopRequest();
  const isPending = await warnIfPending(settings, log);
  const gateway = await listening(settings, log, worker);
  await warnAtStart(settings, log, { processes: 1, worker });
  await flushLogs();
  print(command, { url: gateway.url }, greeting(gateway.url));
  await askedOrRefused(stop.asked, isPending, settings).finally(() => leaveAndStop(gateway, settings));
}

async function serveByWorkers(
  settings: Settings,
  log: Logger,
  size: number,
  worker: boolean,
  command: Command,
): Promise<void> {
  let fleet: Fleet | undefined;
  const stop = stopRequest(() => fleet?.kill(), ["SIGINT", "SIGTERM"]);
  process.on("SIGHUP", () => fleet?.restart());
  const isPending = await warnIfPending(settings, log);
  const internal = await opening(() => startFleetInternal(settings, log), settings);
  const started = await startFleet({ size, settings, log });
  fleet = started;
  await warnAtStart(settings, log, { processes: size, worker });
  await flushLogs();
  print(command, { url: started.url, workers: size }, greeting(started.url));
  await askedOrRefused(stop.asked, isPending, settings).finally(() => started.stop());
  await waitAtMost(CLOSING_SECONDS, internal?.stop() ?? Promise.resolve());
}

async function serveAsWorker(settings: Settings, log: Logger, worker: boolean): Promise<void> {
  const own = log.child({ pid: process.pid });
  const { gateway, asked } = await runWorker(() => listening(settings, own, worker));
  if (asked === "stop") await leaveAndStop(gateway, settings);
  else await stopInTime(gateway, settings);
}

const greeting = (url: string) => `Listening on ${url}; reference at ${url}/docs`;

async function leaveAndStop(gateway: Gateway, settings: Settings): Promise<void> {
  gateway.markUnready();
  await sleep(settings.DRAIN_DELAY_SECONDS * 1000);
  await stopInTime(gateway, settings);
}

const stopInTime = (gateway: Gateway, { DRAIN_SECONDS }: Settings) =>
  waitAtMost(DRAIN_SECONDS + CLOSING_SECONDS, gateway.stop());
