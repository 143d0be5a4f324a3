import type { Logger } from "pino";
import type { Settings } from "../../server/config.js";
import type { Mailer } from "../../server/emails/mailer.js";
import { CommandFailure, explain } from "../cli/failure.js";
import { HOST_SETTING, ListenError } from "../runtime/listening.js";
import { startGateway } from "./gateway.js";

/** `--port` and `--host`. */
export interface Address {
  port: number | undefined;
  host: string | undefined;
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

export class PortTakenError extends CommandFailure {
  readonly setting: ListenError["setting"];

  constructor(setting: ListenError["setting"], message: string) {
    super(message);
    this.setting = setting;
  }
}

function explainListenError(error: unknown, settings: Settings): CommandFailure | undefined {
  if (!(error instanceof ListenError)) return undefined;
  const { setting, code } = error;
  const hostSetting = HOST_SETTING[setting];
  const host = settings[hostSetting];
  const port = settings[setting];
  if (code !== "EADDRINUSE") {
    return new CommandFailure(`Cannot listen on ${host} port ${port} (${code}): check ${hostSetting} and ${setting}.`);
  }
  if (setting === "INTERNAL_PORT" && port === settings.PORT) {
    return new CommandFailure(`PORT and INTERNAL_PORT are both ${port}: set one of them to another port.`);
  }
  const message = `Port ${port} on ${host} is in use: stop the process that listens there, or set ${setting} to another port.`;
  return new PortTakenError(setting, message);
}
