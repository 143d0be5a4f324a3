import type { Command } from "commander";
import { notes } from "./help.js";
import { print, withJson } from "./print.js";
import { settingsNotes } from "./settings-help.js";
import { stopRequest } from "./stopping.js";

/** `worker`. */
export function addWorker(program: Command): void {
  withJson(program.command("worker"))
    .description("run the notification worker alone, beside `serve --no-worker`")
    .addHelpText(
      "after",
      notes(`
Wants DATABASE_URL. SIGTERM, SIGINT and SIGHUP stop it: what is being sent is finished (DRAIN_SECONDS at most).`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (_options: object, command: Command) => {
      const { settingsWithDatabase } = await import("./environment.js");
      const { CLOSING_SECONDS } = await import("./listening.js");
      const { askedOrRefused, warnIfPending } = await import("./pending-migrations.js");
      const { warnIfNotificationsWait } = await import("./waiting.js");
      const { warnOfStoredSecret, withServices } = await import("./services.js");
      const { waitAtMost } = await import("../../server/timeout.js");
      const { startWorker, whyNotificationsWait } = await import("../../server/worker.js");
      const stop = stopRequest();
      const settings = settingsWithDatabase();
      await withServices(settings, async (services, log) => {
        warnOfStoredSecret(settings, log);
        const isPending = await warnIfPending(settings, log);
        const worker = await startWorker(services, log);
        warnIfNotificationsWait(settings, log);
        const concurrency = whyNotificationsWait(settings) ? 0 : settings.WORKER_CONCURRENCY;
        print(command, { concurrency }, `Sending notifications, ${concurrency} at once.`);
        await askedOrRefused(stop.asked, isPending, settings).finally(() =>
          waitAtMost(settings.DRAIN_SECONDS + CLOSING_SECONDS, worker.stop()),
        );
      });
    });
}
