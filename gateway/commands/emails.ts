import { EMAIL_STATES } from "../../server/constants.js";
import type { Email } from "../../server/emails/schema.js";
import { command, DATABASE_HELP, localCommand, noun } from "../cli/command.js";
import { argument, flag, option, optionalArgument, required } from "../cli/fields.js";
import { list } from "../cli/list.js";
import { formatRecord, formatTable } from "../cli/print.js";
import { oneOf, TEXT } from "../cli/readers.js";
import { FORM_HELP, FORM_ID, formOption } from "./forms.js";

const language = (description: string) => option("--language <language>", description, TEXT);

export const emails = noun("emails to guests and owners, and the texts of the invitation", {
  list: list({
    description: "list emails that wait, failed, bounced or expired, oldest first; or those in one state",
    input: {
      state: option(
        "--state <state>",
        "only emails in this state; sent ones newest first (default: all but sent and dismissed ones)",
        oneOf(EMAIL_STATES),
      ),
      formId: formOption("only emails about this form, in every state"),
    },
    help: `
States: waiting (not tried yet), running (being sent), retrying (failed, retried at "run at"), failed (given up because
the mail server permanently rejected the address or message, four days have passed, or its worker crashed five times in
a row), expired (not sent, because nobody needs it: the stay was over or the form past SENT), sent (the mail server accepted
it), bounced (accepted, and came back: recorded by emails bounced), dismissed (it failed or bounced, and was dealt with).`,
    call: ({ emails }, input) => emails.list(input),
    columns: ({ state, formId }) => [
      "id",
      "formId",
      "state",
      "attempts",
      "runAt",
      ...(formId || state ? (["sentAt", "messageId", "reply"] as const) : []),
      "lastError",
    ],
    none: ({ state, formId }) =>
      `There are no ${state || formId ? "" : "unsent "}emails${state ? ` in state ${state}` : ""}${formId ? " of this form" : ""}.`,
  }),
  send: command({
    description: "send a guest the invitation, also if it was sent before; no effect on one that is being sent",
    input: { formId: FORM_ID },
    examples: ["guest-forms emails send 7d1f2b8c-3c55-4a80-a3ba-1de5a2f0c9e4"],
    call: ({ emails }, input) => emails.send(input),
  }),
  retry: command({
    description: "retry an email or all failed ones now; no effect on one that is running or would expire",
    input: {
      id: optionalArgument("[id]", TEXT),
      failed: flag("--failed", "all failed emails, except those that would expire", true),
    },
    examples: ["guest-forms emails retry 42", "guest-forms emails retry --failed"],
    check: ({ id, failed }) => (id === undefined) === (failed === undefined) && "Give either ID or --failed.",
    call: ({ emails }, { id }): Promise<Email | { retried: number }> =>
      id === undefined ? emails.retryFailed() : emails.retry({ id }),
    text: (result) => ("retried" in result ? `Emails that are retried: ${result.retried}.` : formatRecord(result)),
    notFound: "There is no unsent email with this id.",
  }),
  dismiss: command({
    description: "stop warning about an email that failed or bounced, or about all of them; nothing is sent",
    input: {
      id: optionalArgument("[id]", TEXT),
      all: flag("--all", "all emails that failed or bounced", true),
    },
    examples: ["guest-forms emails dismiss 42", "guest-forms emails dismiss --all"],
    check: ({ id, all }) => (id === undefined) === (all === undefined) && "Give either ID or --all.",
    call: ({ emails }, { id }): Promise<Email | { dismissed: number }> =>
      id === undefined ? emails.dismissAll() : emails.dismiss({ id }),
    text: (result) =>
      "dismissed" in result ? `Emails that were dismissed: ${result.dismissed}.` : formatRecord(result),
    notFound: "There is no failed or bounced email with this id.",
  }),
  bounced: command({
    description: "record that emails which the mail server had accepted came back",
    input: {
      email: argument("<email>", TEXT),
      reason: option("--reason <text>", "why, such as the line of the bounce; addresses in it are masked", TEXT),
    },
    help: `
EMAIL is the Message-ID of an email, or a guest's address, which stands for the last invitation to each form that has it,
which reads all stored addresses. Correct the address with an update of the form, which sends the invitation to the new one, or
dismiss the email.`,
    examples: ['guest-forms emails bounced guest@example.com --reason "550 5.1.1 user unknown"'],
    call: ({ emails }, input) => emails.markBounced(input),
    text: ({ emails }) =>
      formatTable(emails, ["id", "formId", "state", "sentAt", "messageId", "lastError"], "No sent email was found."),
    problem: ({ emails, unreadable }) =>
      unreadable > 0
        ? `${unreadable} stored addresses could not be read: add the secret that was used when they were stored to APP_SECRETS.`
        : emails.length === 0
          ? ""
          : undefined,
  }),
  preview: localCommand({
    description: "write the invitation as HTML and text, to look at it",
    input: {
      language: language("language, such as de (default: all, or with --form the listing's)"),
      form: option("--form <form>", "the invitation of this form (default: an example)", TEXT),
      sparse: {
        ...flag("--sparse", "an example without all that may be missing: stay, guests, host", true),
        conflicts: "form",
      },
      output: option("--output <folder>", "folder to write to (default: a new temporary one)", TEXT),
    },
    help: `
Reads EMAIL_TEMPLATES and the other settings of the invitation. Overwrites earlier previews in the folder.

With --form: ${FORM_HELP}
${DATABASE_HELP}`,
    examples: ["guest-forms emails preview --language fr --output previews"],
    async run(input) {
      const { writePreviews } = await import("./actions/emails.js");
      return { previews: await writePreviews(input) };
    },
    text: ({ previews }) =>
      previews
        .map(({ language, subject, html, text }) => `${language}  ${html}\n    ${text}\n    ${subject}`)
        .join("\n"),
  }),
  templates: localCommand({
    description: "write the templates of the invitation in use, as a start for your own in EMAIL_TEMPLATES",
    input: {
      language: language("language, such as de (default: all)"),
      output: required("--output <folder>", "folder to write to; nothing in it is overwritten", TEXT),
    },
    examples: ["guest-forms emails templates --language de --output emails"],
    async run(input) {
      const { writeTemplates } = await import("./actions/emails.js");
      return { files: await writeTemplates(input) };
    },
    text: ({ files }) => files.join("\n"),
  }),
  test: localCommand({
    description: "send an example of the invitation",
    input: {
      to: required("--to <address>", "email address of the recipient", TEXT),
      language: language("language, such as de (default: EMAIL_LANGUAGE)"),
    },
    help: "Requires SMTP_URL.",
    examples: ["guest-forms emails test --to you@example.com --language it"],
    async run(input) {
      const { sendExample } = await import("./actions/emails.js");
      return sendExample(input);
    },
    text: ({ messageId, reply, subject }) => formatRecord({ sent: subject, messageId, reply }),
  }),
});
