import type { Logger } from "pino";
import type { Services } from "../../server/context.js";
import { openServices } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { createLog } from "../process/log.js";
import type { WithDatabase } from "./environment.js";
import { explain, type Wording } from "./failure.js";
import { CLOSING_SECONDS } from "./listening.js";

/** Logs that the database holds the secret, if it does. */
export function warnOfStoredSecret({ APP_SECRETS }: WithDatabase, log: Logger): void {
  if (APP_SECRETS) return;
  log.warn({}, "APP_SECRETS is not set: the secret is stored in the database, and dumps of it contain it");
}

/** Runs `work` with the services open. A failure is one line. */
export async function withServices<Result>(
  settings: WithDatabase,
  work: (services: Services, log: Logger) => Promise<Result>,
  wording: Wording = {},
): Promise<Result> {
  const log = createLog(settings.LOG_LEVEL);
  try {
    const { services, close } = await openServices(settings, log);
    return await work(services, log).finally(() => waitAtMost(CLOSING_SECONDS, close()));
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL, wording });
  }
}
