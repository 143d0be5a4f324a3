import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Mailer } from "../../server/notifications/mailer.js";
import { startGateway } from "../serve.js";
import { CommandFailure, explain } from "./failure.js";

/** `--port` and `--host`. */
export interface Address {
  port?: number;
  host?: string;
}

/** Timeout for closing connections after the last request, so that a hung database cannot block the exit. */
export const CLOSE_TIMEOUT_SECONDS = 2;

/** Overrides the settings with the address from the command line. */
export const applyAddress = <S extends Settings>(settings: S, { port, host }: Address): S => ({
  ...settings,
  ...(port !== undefined && { PORT: port }),
  ...(host !== undefined && { HOST: host }),
});

/** Starts the gateway. Throws a CommandFailure. */
export const startListening = (settings: Settings, log: Logger, worker: boolean, mailer?: Mailer) =>
  explainStartErrors(() => startGateway({ settings, log, worker, mailer }), settings);

/** Runs `start`, turning its errors into a CommandFailure. */
export async function explainStartErrors<Started>(
  start: () => Promise<Started>,
  settings: Settings,
): Promise<Started> {
  try {
    return await start();
  } catch (error) {
    throw explainListenError(error, settings) ?? explain(error, { databaseUrl: settings.DATABASE_URL });
  }
}

export class PortTakenError extends CommandFailure {}

function explainListenError(error: unknown, settings: Settings): CommandFailure | undefined {
  const { HOST, PORT, INTERNAL_TOKEN, INTERNAL_HOST, INTERNAL_PORT } = settings;
  const { code, syscall, port } = error as { code?: string; syscall?: string; port?: number };
  if (INTERNAL_TOKEN && port === INTERNAL_PORT && port !== PORT) {
    return new CommandFailure(
      `Cannot listen on ${INTERNAL_HOST} port ${port} for internal tools (${code}): set INTERNAL_PORT to another port.`,
    );
  }
  if (code === "EADDRINUSE") {
    return new PortTakenError(
      `Port ${PORT} on ${HOST} is in use: stop the process that listens there, or set PORT to another port.`,
    );
  }
  // In a cluster the primary opens the port, and its workers get "bind".
  const isListenCall = syscall === "listen" || syscall === "bind";
  if (!isListenCall && !(syscall === "getaddrinfo" && code === "ENOTFOUND")) return undefined;
  return new CommandFailure(`Cannot listen on ${HOST} port ${PORT} (${code}): check HOST and PORT.`);
}
