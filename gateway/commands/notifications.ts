import { type Command, Option } from "commander";
import { STATES, type State } from "../../server/constants.js";
import { addDataCommand, addListCommand } from "../cli/data-command.js";
import { formatTable } from "../cli/print.js";

export function addNotifications(program: Command): void {
  const notifications = addListCommand(program, "notifications", {
    description: "list unsent notifications, oldest first: waiting, failed and expired ones",
    options: [new Option("--state <state>", "only notifications in this state (default: all)").choices(STATES)],
    help: `
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "run at"), failed (given up because
the mail server permanently rejected the address or message, four days have passed, or its worker crashed five times in
a row), expired (not sent, because the stay was over or the form past SENT).`,
    call: (core, given: { state?: State }) => core.notifications.list(given),
    table: (items, { state }) =>
      formatTable(
        items,
        ["id", "formId", "state", "attempts", "runAt", "lastError"],
        state ? `There are no notifications in state ${state}.` : "There are no unsent notifications.",
      ),
  }).enablePositionalOptions();
  addDataCommand(notifications, "retry <id>", {
    description: "retry a notification now; no effect on one that is running; one that would expire is rejected",
    help: "Example:\n  guest-forms notifications retry 42",
    call: (core, { id }: { id: string }) => core.notifications.retry({ id }),
    optionNames: { id: "ID" },
    notFound: "There is no unsent notification with this id.",
  });
}
