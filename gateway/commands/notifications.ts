import type { Command } from "commander";
import { notes } from "./help.js";
import { record, table } from "./print.js";
import { dataCommand, operate } from "./run.js";

/** `notifications`, `notifications retry`. */
export function addNotifications(program: Command): void {
  const notifications = dataCommand(program, "notifications")
    .enablePositionalOptions()
    .description("list the notifications that wait to be sent, or failed")
    .addHelpText(
      "after",
      notes(`
States: waiting (not tried yet), running (being sent), retrying (failed, tried again at "run at"), failed (given up:
the mail server refused the address or the message for good, four days have passed, or its worker crashed five times in a
row).`),
    )
    .action((_options: object, command: Command) =>
      operate(command, {
        call: (core) => core.notifications.list(),
        text: (rows) =>
          table(
            rows,
            ["id", "formId", "state", "attempts", "runAt", "lastError"],
            "No notification waits or has failed.",
          ),
      }),
    );
  dataCommand(notifications, "retry <id>")
    .description("try a notification again at once; one that is running is left to its attempt")
    .addHelpText("after", notes("\nExample:\n  guest-forms notifications retry 42"))
    .action((id: string, _options: object, command: Command) =>
      operate(command, {
        call: (core) => core.notifications.retry({ id }),
        text: record,
        missing: "No notification with this id waits or has failed.",
      }),
    );
}
