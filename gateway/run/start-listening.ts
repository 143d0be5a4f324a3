import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Mailer } from "../../server/notifications/mailer.js";
import { CommandFailure, explain } from "../cli/failure.js";
import { startGateway } from "../service/start.js";

/** `--port` and `--host`. */
export interface Address {
  port?: number;
  host?: string;
}

/** Overrides the settings with the address from the command line. */
export const applyAddress = <S extends Settings>(settings: S, { port, host }: Address): S => ({
  ...settings,
  ...(port !== undefined && { PORT: port }),
  ...(host !== undefined && { HOST: host }),
});

/** Starts the gateway. Throws a CommandFailure. */
export async function startListening(settings: Settings, log: Logger, worker: boolean, mailer?: Mailer) {
  try {
    return await startGateway({ settings, log, worker, mailer });
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
  if (syscall !== "listen" && !(syscall === "getaddrinfo" && code === "ENOTFOUND")) return undefined;
  return new CommandFailure(`Cannot listen on ${HOST} port ${PORT} (${code}): check HOST and PORT.`);
}
