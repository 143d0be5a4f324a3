import cluster from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import { waitAtMost } from "../../server/timeout.js";
import { startFleetInternal } from "../internal/fleet.js";
import { type Fleet, runClusterWorker, startFleet } from "../process/cluster.js";
import { createLog, flushLogs } from "../process/log.js";
import type { Gateway } from "../serve.js";
import { readSettingsWithDatabase } from "./environment.js";
import { waitForStop, warnIfPending } from "./pending-migrations.js";
import { print } from "./print.js";
import { warnIfSecretIsStored } from "./services.js";
import {
  type Address,
  applyAddress,
  CLOSE_TIMEOUT_SECONDS,
  explainStartErrors,
  startListening,
} from "./start-listening.js";
import { listenForStop } from "./stopping.js";
import { warnAtStart } from "./warn-at-start.js";

export interface ServeOptions extends Address {
  /** Whether to send notifications. */
  worker: boolean;
  /** Processes that share the port. */
  workers?: number;
}

/** Serves until it is stopped by a signal or, as a cluster worker, by the primary. */
export async function serve(options: ServeOptions, command: Command): Promise<void> {
  const settings = applyAddress(readSettingsWithDatabase(), options);
  const log = createLog(settings.LOG_LEVEL);
  if (!cluster.isWorker) warnIfSecretIsStored(settings, log);
  if (cluster.isWorker) await serveAsClusterWorker(settings, log, options.worker);
  else if (options.workers) await serveCluster(settings, log, options.workers, options.worker, command);
  else await serveSingleProcess(settings, log, options.worker, command);
  await flushLogs();
}

async function serveSingleProcess(
  settings: Settings,
  log: Logger,
  worker: boolean,
  command: Command,
): Promise<void> {
  const stop = listenForStop();
  const isPending = await warnIfPending(settings, log);
  const gateway = await startListening(settings, log, worker);
  await warnAtStart(settings, log, { processes: 1, worker });
  await flushLogs();
  print(command, { url: gateway.url }, listeningMessage(gateway.url));
  await waitForStop(stop.requested, isPending, settings).finally(() => drainAndStop(gateway, settings));
}

async function serveCluster(
  settings: Settings,
  log: Logger,
  size: number,
  worker: boolean,
  command: Command,
): Promise<void> {
  let fleet: Fleet | undefined;
  const stop = listenForStop(() => fleet?.kill(), ["SIGINT", "SIGTERM"]);
  process.on("SIGHUP", () => fleet?.restart());
  const isPending = await warnIfPending(settings, log);
  const internal = await explainStartErrors(() => startFleetInternal(settings, log), settings);
  const started = await startFleet({ size, settings, log });
  fleet = started;
  await warnAtStart(settings, log, { processes: size, worker });
  await flushLogs();
  print(command, { url: started.url, workers: size }, listeningMessage(started.url));
  await waitForStop(stop.requested, isPending, settings).finally(() => started.stop());
  await waitAtMost(CLOSE_TIMEOUT_SECONDS, internal?.stop() ?? Promise.resolve());
}

async function serveAsClusterWorker(settings: Settings, log: Logger, worker: boolean): Promise<void> {
  const workerLog = log.child({ pid: process.pid });
  const { gateway, order } = await runClusterWorker(() => startListening(settings, workerLog, worker));
  if (order === "stop") await drainAndStop(gateway, settings);
  else await stopWithTimeout(gateway, settings);
}

const listeningMessage = (url: string) => `Listening on ${url}; API reference at ${url}/docs`;

async function drainAndStop(gateway: Gateway, settings: Settings): Promise<void> {
  gateway.markUnready();
  await sleep(settings.DRAIN_DELAY_SECONDS * 1000);
  await stopWithTimeout(gateway, settings);
}

const stopWithTimeout = (gateway: Gateway, { DRAIN_SECONDS }: Settings) =>
  waitAtMost(DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, gateway.stop());
