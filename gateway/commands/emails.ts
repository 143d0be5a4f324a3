import { type Command, InvalidArgumentError, Option } from "commander";
import { EMAIL_STATES } from "../../server/constants.js";
import type { Email } from "../../server/emails/schema.js";
import { addDataCommand, addListCommand, DATABASE_HELP, required } from "../cli/data-command.js";
import { notes } from "../cli/help.js";
import { formatRecord, formatTable, print, withJson } from "../cli/print.js";
import { FORM_HELP, NO_FORM } from "./forms.js";

export function addEmails(program: Command): void {
  const emails = program.command("emails").description("emails to guests and owners, and the texts of the invitation");
  addList(emails);
  addSend(emails);
  addRetry(emails);
  addPreview(emails);
  addTemplates(emails);
  addTest(emails);
}

interface ListOptions {
  state?: (typeof EMAIL_STATES)[number];
  form?: string;
}

const addList = (emails: Command) =>
  addListCommand(emails, "list", {
    description: "list unsent emails, oldest first: waiting, failed and expired ones; or sent ones",
    options: [
      new Option("--state <state>", "only emails in this state; sent ones newest first (default: unsent)").choices(
        EMAIL_STATES,
      ),
      new Option("--form <form>", "only emails about this form, including sent ones"),
    ],
    help: `
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "run at"), failed (given up because
the mail server permanently rejected the address or message, four days have passed, or its worker crashed five times in
a row), expired (not sent, because the stay was over or the form past SENT), sent.
${FORM_HELP}`,
    call: async (core, { form, ...given }: ListOptions, { findForm }) =>
      core.emails.list({ ...given, formId: form && (await findForm(form)) }),
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
        `There are no ${state || form ? "" : "unsent "}emails${state ? ` in state ${state}` : ""}${form ? " of this form" : ""}.`,
      ),
    notFound: NO_FORM,
  });

const addSend = (emails: Command) =>
  addDataCommand(emails, "send <form>", {
    description: "send a guest the invitation, also if it was sent before; no effect on one that is being sent",
    help: `${FORM_HELP}

Example:
  guest-forms emails send 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4`,
    call: async (core, { form }: { form: string }, { findForm }) => core.emails.send({ formId: await findForm(form) }),
    optionNames: { formId: "FORM" },
    notFound: NO_FORM,
  });

interface RetryOptions {
  id?: string;
  failed?: true;
}

const addRetry = (emails: Command) =>
  addDataCommand(emails, "retry [id]", {
    description: "retry an email or all failed ones now; no effect on one that is running or would expire",
    options: [new Option("--failed", "all failed emails, except those that would expire")],
    help: "Examples:\n  guest-forms emails retry 42\n  guest-forms emails retry --failed",
    check({ id, failed }: RetryOptions) {
      if ((id === undefined) !== (failed === true)) throw new InvalidArgumentError("Give either ID or --failed.");
    },
    call: (core, { id }: RetryOptions): Promise<Email | { retried: number }> =>
      id === undefined ? core.emails.retryFailed() : core.emails.retry({ id }),
    text: (result) => ("retried" in result ? `Emails that are retried: ${result.retried}.` : formatRecord(result)),
    optionNames: { id: "ID" },
    notFound: "There is no unsent email with this id.",
  });

const language = (description: string) => new Option("--language <language>", description);

export interface PreviewOptions {
  language?: string;
  form?: string;
  sparse?: true;
  output?: string;
}

const addPreview = (emails: Command) =>
  withJson(emails.command("preview"))
    .description("write the invitation as HTML and text, to look at it")
    .addOption(language("language, such as de (default: all, or with --form the listing's)"))
    .addOption(new Option("--form <form>", "the invitation of this form (default: an example)"))
    .addOption(
      new Option("--sparse", "an example without all that may be missing: stay, guests, host").conflicts("form"),
    )
    .addOption(new Option("--output <folder>", "folder to write to (default: a new temporary one)"))
    .addHelpText(
      "after",
      notes(`
Reads EMAIL_TEMPLATES and the other settings of the invitation. Overwrites earlier previews in the folder.

With --form: ${FORM_HELP.trim()}
${DATABASE_HELP}

Example:
  guest-forms emails preview --language fr --output previews`),
    )
    .action(async (options: PreviewOptions, command: Command) => {
      const { writePreviews } = await import("./actions/emails.js");
      const previews = await writePreviews(options);
      const lines = previews.map(
        ({ language, subject, html, text }) => `${language}  ${html}\n    ${text}\n    ${subject}`,
      );
      print(command, { previews }, lines.join("\n"));
    });

const addTemplates = (emails: Command) =>
  withJson(emails.command("templates"))
    .description("write the templates of the invitation in use, as a start for your own in EMAIL_TEMPLATES")
    .addOption(language("language, such as de (default: all)"))
    .addOption(required("--output <folder>", "folder to write to; nothing in it is overwritten"))
    .addHelpText("after", notes("Example:\n  guest-forms emails templates --language de --output emails"))
    .action(async (options: { language?: string; output: string }, command: Command) => {
      const { writeTemplates } = await import("./actions/emails.js");
      const files = await writeTemplates(options);
      print(command, { files }, files.join("\n"));
    });

const addTest = (emails: Command) =>
  withJson(emails.command("test"))
    .description("send an example of the invitation")
    .addOption(required("--to <address>", "email address of the recipient"))
    .addOption(language("language, such as de (default: EMAIL_LANGUAGE)"))
    .addHelpText(
      "after",
      notes("Requires SMTP_URL.\n\nExample:\n  guest-forms emails test --to you@example.com --language it"),
    )
    .action(async (options: { language?: string; to: string }, command: Command) => {
      const { sendExample } = await import("./actions/emails.js");
      const sent = await sendExample(options);
      print(command, sent, `Sent: ${sent.subject}`);
    });
