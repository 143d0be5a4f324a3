import type { Command } from "commander";
import { notes } from "../cli/help.js";
import { print, withJson } from "../cli/print.js";
import { settingsNotes } from "../cli/settings-help.js";
import { listenForStop } from "../run/stopping.js";

export function addWorker(program: Command): void {
  withJson(program.command("worker"))
    .description("run only the notification worker, next to `serve --no-worker`")
    .addHelpText(
      "after",
      notes(`
Requires DATABASE_URL and APP_SECRETS. SIGTERM, SIGINT and SIGHUP stop it gracefully: notifications being sent are finished (at
most DRAIN_SECONDS).`),
    )
    .addHelpText("after", settingsNotes)
    .action(async (_options: object, command: Command) => {
      const { readSettingsWithDatabase } = await import("../cli/environment.js");
      const { CLOSE_TIMEOUT_SECONDS } = await import("../process/listening.js");
      const { warnAtStart } = await import("../run/warn-at-start.js");
      const { withServices } = await import("../cli/services.js");
      const { waitAtMost } = await import("../../server/timeout.js");
      const { startWorker, whyNotificationsWait } = await import("../../server/worker.js");
      const stop = listenForStop();
      const settings = readSettingsWithDatabase();
      await withServices(settings, async (services, log) => {
        await warnAtStart(settings, log, { checks: ["settings", "schema"], worker: true });
        const worker = await startWorker(services, log);
        const concurrency = whyNotificationsWait(settings) ? 0 : settings.WORKER_CONCURRENCY;
        print(command, { concurrency }, `Sending notifications, ${concurrency} at a time.`);
        await stop.requested;
        await waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, worker.stop());
      });
    });
}
