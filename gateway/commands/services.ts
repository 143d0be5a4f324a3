import type { Logger } from "pino";
import type { Services } from "../../server/context.js";
import { openServices } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { createLog } from "../process/log.js";
import type { SettingsWithDatabase } from "./environment.js";
import { explain, type Wording } from "./failure.js";
import { CLOSE_TIMEOUT_SECONDS } from "./start-listening.js";

/** Warns if the secret is stored in the database. */
export function warnIfSecretIsStored({ APP_SECRETS }: SettingsWithDatabase, log: Logger): void {
  if (APP_SECRETS) return;
  log.warn({}, "APP_SECRETS is not set: the secret is stored in the database and contained in its dumps");
}

/** Runs `work` with the services open. Throws a CommandFailure. */
export async function withServices<Result>(
  settings: SettingsWithDatabase,
  work: (services: Services, log: Logger) => Promise<Result>,
  wording: Wording = {},
): Promise<Result> {
  const log = createLog(settings.LOG_LEVEL);
  try {
    const { services, close } = await openServices(settings, log);
    return await work(services, log).finally(() => waitAtMost(CLOSE_TIMEOUT_SECONDS, close()));
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL, wording });
  }
}
