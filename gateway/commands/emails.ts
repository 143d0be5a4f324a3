import { type Command, Option } from "commander";
import { DATABASE_HELP, required } from "../cli/data-command.js";
import { notes } from "../cli/help.js";
import { print, withJson } from "../cli/print.js";
import { FORM_HELP } from "./forms.js";

const language = (description: string) => new Option("--language <language>", description);

export interface PreviewOptions {
  language?: string;
  form?: string;
  sparse?: true;
  output?: string;
}

export function addEmails(program: Command): void {
  const emails = program.command("emails").description("the invitation to guests, in several languages");
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
}
