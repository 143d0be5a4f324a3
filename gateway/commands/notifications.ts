import { type Command, Option } from "commander";
import { STATES, type State } from "../../server/notifications/states.js";
import { notes } from "./help.js";
import { formatPage, type PageOptions, withPages } from "./pages.js";
import { formatRecord, formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

export function addNotifications(program: Command): void {
  const notifications = withPages(addDataCommand(program, "notifications"))
    .enablePositionalOptions()
    .description("list unsent notifications, oldest first: waiting, failed and expired ones")
    .addOption(
      new Option("--state <state>", "only notifications in this state (default: all)").choices(STATES),
    )
    .addHelpText(
      "after",
      notes(`
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "run at"), failed (given up because
the mail server permanently rejected the address or message, four days have passed, or its worker crashed five times in
a row), expired (not sent, because the stay was over or the form past SENT).`),
    )
    .action(({ state, limit, after }: PageOptions & { state?: State }, command: Command) =>
      callCore(command, {
        call: (core) => core.notifications.list({ state, limit, cursor: after }),
        text: (page) =>
          formatPage(
            formatTable(
              page.items,
              ["id", "formId", "state", "attempts", "runAt", "lastError"],
              state ? `There are no notifications in state ${state}.` : "There are no unsent notifications.",
            ),
            page,
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
