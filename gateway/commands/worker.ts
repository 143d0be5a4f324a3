import type { Command } from "commander";
import { notes } from "./help.js";
import { print, withJson } from "./print.js";
import { settingsNotes } from "./settings-help.js";
import { listenForStop } from "./stopping.js";

export function addWorker(program: Command): void {
  withJson(program.command("worker"))
    .description("run only the notification worker, next to `serve --no-worker`")
    .addHelpText(
      "after",
      notes(`
Requires DATABASE_URL. SIGTERM, SIGINT and SIGHUP stop it gracefully: notifications being sent are finished (at most
DRAIN_SECONDS).`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (_options: object, command: Command) => {
      const { readSettingsWithDatabase } = await import("./environment.js");
      const { CLOSE_TIMEOUT_SECONDS } = await import("./start-listening.js");
      const { waitForStop, warnIfPending } = await import("./pending-migrations.js");
      const { warnIfNotificationsWait } = await import("./warn-if-notifications-wait.js");
      const { warnIfSecretIsStored, withServices } = await import("./services.js");
      const { waitAtMost } = await import("../../server/timeout.js");
      const { startWorker, whyNotificationsWait } = await import("../../server/worker.js");
      const stop = listenForStop();
      const settings = readSettingsWithDatabase();
      await withServices(settings, async (services, log) => {
        warnIfSecretIsStored(settings, log);
        const isPending = await warnIfPending(settings, log);
        const worker = await startWorker(services, log);
        warnIfNotificationsWait(settings, log);
        const concurrency = whyNotificationsWait(settings) ? 0 : settings.WORKER_CONCURRENCY;
        print(command, { concurrency }, `Sending notifications, ${concurrency} at a time.`);
        await waitForStop(stop.requested, isPending, settings).finally(() =>
          waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, worker.stop()),
        );
      });
    });
}
