import type { Command } from "commander";
import { openServices } from "../../../server/services.js";
import { waitAtMost } from "../../../server/timeout.js";
import { startWorker } from "../../../server/worker.js";
import { createLog } from "../../process/log.js";
import { settingsWithDatabase } from "../environment.js";
import { explain } from "../failure.js";
import { print } from "../print.js";
import { stopRequest } from "../stopping.js";
import { CLOSING_SECONDS } from "./serve.js";

/** Sends notifications until a signal asks to stop. */
export async function work(command: Command): Promise<void> {
  const stop = stopRequest();
  const settings = settingsWithDatabase();
  const log = createLog(settings.LOG_LEVEL);
  try {
    const { services, close } = await openServices(settings, log);
    const worker = await startWorker(services, log);
    const concurrency = settings.WORKER_CONCURRENCY;
    print(command, { concurrency }, `Sending notifications, ${concurrency} at once.`);
    await stop.asked;
    await waitAtMost(settings.DRAIN_SECONDS + CLOSING_SECONDS, worker.stop());
    await waitAtMost(CLOSING_SECONDS, close());
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL });
  }
}
