import { type Command, InvalidArgumentError, Option } from "commander";
import { ALL_STATES } from "../../server/constants.js";
import type { Notification } from "../../server/notifications/schema.js";
import { addDataCommand, addListCommand } from "../cli/data-command.js";
import { formatRecord, formatTable } from "../cli/print.js";
import { FORM_HELP, NO_FORM } from "./forms.js";

interface RetryOptions {
  id?: string;
  failed?: true;
}

export function addNotifications(program: Command): void {
  const notifications = addListCommand(program, "notifications", {
    description: "list unsent notifications, oldest first: waiting, failed and expired ones; or sent ones",
    options: [
      new Option(
        "--state <state>",
        "only notifications in this state; sent ones newest first (default: unsent)",
      ).choices(ALL_STATES),
      new Option("--form <form>", "only notifications of this form, including sent ones"),
    ],
    help: `
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "run at"), failed (given up because
the mail server permanently rejected the address or message, four days have passed, or its worker crashed five times in
a row), expired (not sent, because the stay was over or the form past SENT), sent.
${FORM_HELP}`,
    call: async (core, { form, ...given }: { state?: (typeof ALL_STATES)[number]; form?: string }, { findForm }) =>
      core.notifications.list({ ...given, formId: form && (await findForm(form)) }),
    table: (items, { state, form }) =>
      formatTable(
        items,
        [
          "id",
          "formId",
          "state",
          "attempts",
          "runAt",
          ...(form || state === "sent" ? (["sentAt"] as const) : []),
          "lastError",
        ],
        `There are no ${state || form ? "" : "unsent "}notifications${state ? ` in state ${state}` : ""}${form ? " of this form" : ""}.`,
      ),
    notFound: NO_FORM,
  }).enablePositionalOptions();
  addDataCommand(notifications, "send <form>", {
    description: "send a guest the invitation, also if it was sent before; no effect on one that is being sent",
    help: `${FORM_HELP}

Example:
  guest-forms notifications send 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4`,
    call: async (core, { form }: { form: string }, { findForm }) =>
      core.notifications.send({ formId: await findForm(form) }),
    optionNames: { formId: "FORM" },
    notFound: NO_FORM,
  });
  addDataCommand(notifications, "retry [id]", {
    description: "retry a notification or all failed ones now; no effect on one that is running or would expire",
    options: [new Option("--failed", "all failed notifications, except those that would expire")],
    help: "Examples:\n  guest-forms notifications retry 42\n  guest-forms notifications retry --failed",
    check({ id, failed }: RetryOptions) {
      if ((id === undefined) !== (failed === true)) throw new InvalidArgumentError("Give either ID or --failed.");
    },
    call: (core, { id }: RetryOptions): Promise<Notification | { retried: number }> =>
      id === undefined ? core.notifications.retryFailed() : core.notifications.retry({ id }),
    text: (result) =>
      "retried" in result ? `Notifications that are retried: ${result.retried}.` : formatRecord(result),
    optionNames: { id: "ID" },
    notFound: "There is no unsent notification with this id.",
  });
}
