import type { Command } from "commander";
import { notes } from "./help.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

export function addNotifications(program: Command): void {
  const notifications = addDataCommand(program, "notifications")
    .enablePositionalOptions()
    .description("list unsent notifications: waiting, failed and expired ones")
    .addHelpText(
      "after",
      notes(`
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "run at"), failed (given up because
the mail server permanently rejected the address or message, four days have passed, or its worker crashed five times in
a row), expired (not sent, because the stay was over or the form past SENT).`),
    )
    .action((_options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.notifications.list(),
        text: (rows) =>
          formatTable(
            rows,
            ["id", "formId", "state", "attempts", "runAt", "lastError"],
            "There are no unsent notifications.",
          ),
      }),
    );
  addDataCommand(notifications, "retry <id>")
    .description(
      "retry a notification now; no effect on one that is running; one that would expire is rejected",
    )
    .addHelpText("after", notes("\nExample:\n  guest-forms notifications retry 42"))
    .action((id: string, _options: object, command: Command) =>
      callCore(command, {
        call: (core) => core.notifications.retry({ id }),
        text: formatRecord,
        options: { id: "ID" },
        notFound: "There is no unsent notification with this id.",
      }),
    );
}
