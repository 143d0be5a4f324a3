import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Mailer } from "../../server/notifications/mailer.js";
import { startGateway } from "../serve.js";
import { CommandFailure, explain } from "./failure.js";

/** Where a command is told to listen. */
export interface Address {
  port?: number;
  host?: string;
}

/** For what must be closed after the last request: a frozen database must not hold the process. */
export const CLOSING_SECONDS = 2;

/** The settings with the address of the command line. */
export const addressed = <S extends Settings>(settings: S, { port, host }: Address): S => ({
  ...settings,
  ...(port !== undefined && { PORT: port }),
  ...(host !== undefined && { HOST: host }),
});

/** The started gateway; a failure is one line. */
export const listening = (settings: Settings, log: Logger, worker: boolean, mailer?: Mailer) =>
  opening(() => startGateway({ settings, log, worker, mailer }), settings);

/** What was started; a failure is one line. */
export async function opening<Opened>(start: () => Promise<Opened>, settings: Settings): Promise<Opened> {
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
