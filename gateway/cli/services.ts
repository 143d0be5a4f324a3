import type { Logger } from "pino";
import type { Services } from "../../server/access/context.js";
import { openServices } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { CLOSE_TIMEOUT_SECONDS } from "../process/listening.js";
import { createLog } from "../process/log.js";
import type { SettingsWithDatabase } from "./environment.js";
import { explain, type Wording } from "./failure.js";

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
