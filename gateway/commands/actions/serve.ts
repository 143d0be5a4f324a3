import cluster from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Logger } from "pino";
import { pendingMigrations } from "../../../prisma/migrate.js";
import type { Settings } from "../../../server/config.js";
import { openServices } from "../../../server/services.js";
import { waitAtMost } from "../../../server/timeout.js";
import { startFleetInternal } from "../../internal/fleet.js";
import { type Fleet, runWorker, startFleet } from "../../process/cluster.js";
import { createLog } from "../../process/log.js";
import { type Gateway, startGateway } from "../../serve.js";
import { settingsWithDatabase } from "../environment.js";
import { CommandFailure, explain } from "../failure.js";
import { print } from "../print.js";
import type { ServeOptions } from "../serve.js";
import { stopRequest } from "../stopping.js";

/** Serves until a signal asks to stop; as one of several workers, until their primary does. */
export async function serve(options: ServeOptions, command: Command): Promise<void> {
  const settings = addressed(settingsWithDatabase(), options);
  const log = createLog(settings.LOG_LEVEL);
  if (cluster.isWorker) await serveAsWorker(settings, log, options.worker);
  else if (options.workers) await serveByWorkers(settings, log, options.workers, command);
  else await serveAlone(settings, log, options.worker, command);
}

async function serveAlone(settings: Settings, log: Logger, worker: boolean, command: Command): Promise<void> {
  const stop = stopRequest();
  const gateway = await listening(settings, log, worker);
  await warnIfPending(settings, log);
  print(command, { url: gateway.url }, greeting(gateway.url));
  await stop.asked;
  await leaveAndStop(gateway, settings);
}

async function serveByWorkers(
  settings: Settings,
  log: Logger,
  size: number,
  command: Command,
): Promise<void> {
  let fleet: Fleet | undefined;
  const stop = stopRequest(() => fleet?.kill());
  process.on("SIGHUP", () => fleet?.restart());
  const internal = await opening(() => startFleetInternal(settings, log), settings);
  fleet = await startFleet({ size, settings, log });
  await warnIfPending(settings, log);
  print(command, { url: fleet.url, workers: size }, greeting(fleet.url));
  await stop.asked;
  await fleet.stop();
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
  gateway.leave();
  await sleep(settings.DRAIN_DELAY_SECONDS * 1000);
  await stopInTime(gateway, settings);
}

const stopInTime = (gateway: Gateway, { DRAIN_SECONDS }: Settings) =>
  waitAtMost(DRAIN_SECONDS + CLOSING_SECONDS, gateway.stop());

/** For what must be closed after the last request: a frozen database must not hold the process. */
export const CLOSING_SECONDS = 2;

/** The settings with the address of the command line. */
export const addressed = <S extends Settings>(
  settings: S,
  { port, host }: Pick<ServeOptions, "port" | "host">,
): S => ({
  ...settings,
  ...(port !== undefined && { PORT: port }),
  ...(host !== undefined && { HOST: host }),
});

/** The started gateway; a failure is one line. */
export const listening = (settings: Settings, log: Logger, worker: boolean) =>
  opening(() => startGateway({ settings, log, worker }), settings);

async function opening<Opened>(start: () => Promise<Opened>, settings: Settings): Promise<Opened> {
  try {
    return await start();
  } catch (error) {
    throw listenTrouble(error, settings) ?? explain(error, { databaseUrl: settings.DATABASE_URL });
  }
}

/** Whether starting failed because another process listens there. */
export class PortTaken extends CommandFailure {}

function listenTrouble(error: unknown, settings: Settings): CommandFailure | undefined {
  const { HOST, PORT, INTERNAL_TOKEN, INTERNAL_HOST, INTERNAL_PORT } = settings;
  const { code, syscall, port } = error as { code?: string; syscall?: string; port?: number };
  if (INTERNAL_TOKEN && port === INTERNAL_PORT && port !== PORT) {
    return new CommandFailure(
      `Cannot listen on ${INTERNAL_HOST}, port ${port}, for internal tools (${code}): choose another with INTERNAL_PORT.`,
    );
  }
  if (code === "EADDRINUSE") {
    return new PortTaken(
      `Port ${PORT} on ${HOST} is taken: stop what listens there, or choose another with PORT.`,
    );
  }
  // Of several workers, the primary opens the port: they hear of it as "bind".
  const isPort = syscall === "listen" || syscall === "bind";
  if (!isPort && !(syscall === "getaddrinfo" && code === "ENOTFOUND")) return undefined;
  return new CommandFailure(`Cannot listen on ${HOST}, port ${PORT} (${code}).`);
}

async function warnIfPending(settings: Settings, log: Logger): Promise<void> {
  try {
    const { services, close } = await openServices(settings, log);
    const pending = await pendingMigrations(services.db.pool).finally(close);
    if (pending.length > 0) log.warn({ pending }, "migrations are pending: run `guest-forms migrate`");
  } catch (error) {
    log.warn(
      { reason: explain(error, { databaseUrl: settings.DATABASE_URL }).message },
      "the database is not ready",
    );
  }
}
