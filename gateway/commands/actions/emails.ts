import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readSettings } from "../../../server/config.js";
import type { InvitationFacts } from "../../../server/emails/facts.js";
import { composeInvitation } from "../../../server/emails/invitation.js";
import { MailRejected, smtpMailer } from "../../../server/emails/mailer.js";
import { messageIdOf } from "../../../server/emails/message-id.js";
import type { Invitation } from "../../../server/emails/schema.js";
import { loadTemplates, type Templates } from "../../../server/emails/templates.js";
import { exampleFacts, sparseFacts } from "../../../server/emails/variables.js";
import { canonicalLanguage } from "../../../server/languages.js";
import { INVITATION } from "../../../server/outbox/enqueue.js";
import { emailAddress } from "../../../server/values.js";
import { CommandFailure } from "../../cli/failure.js";
import { callCore } from "../../cli/services.js";
import { writeNew, writeWhole } from "../../rows/write-file.js";
import { NO_FORM } from "../forms.js";

interface Language {
  language: string | undefined;
}

interface PreviewOptions extends Language {
  form: string | undefined;
  /** Whether the example lacks all that may be missing. */
  sparse: true | undefined;
  /** By default a new temporary folder. */
  output: string | undefined;
}

/** Writes the invitation of a form, or an example, as HTML and text. Returns the paths. */
export async function writePreviews({ language, form, sparse, output }: PreviewOptions) {
  const invitations =
    form === undefined
      ? await renderExamples(language, sparse ? sparseFacts() : exampleFacts())
      : [await renderForm(form, language)];
  const folder = output ?? (await mkdtemp(join(tmpdir(), "guest-forms-emails-")));
  await mkdir(folder, { recursive: true });
  return Promise.all(
    invitations.map(async ({ language, subject, text, html }) => {
      const [htmlFile, textFile] = [join(folder, `preview.${language}.html`), join(folder, `preview.${language}.txt`)];
      await writeWhole(htmlFile, (file) => file.writeFile(html));
      await writeWhole(textFile, (file) => file.writeFile(`Subject: ${subject}\n\n${text}`));
      return { language, subject, html: htmlFile, text: textFile };
    }),
  );
}

async function renderExamples(language: string | undefined, facts: InvitationFacts): Promise<Invitation[]> {
  const templates = await loadTemplates(readSettings());
  return chooseLanguages(templates, language).map((each) => ({ ...templates.render(facts, each), language: each }));
}

const renderForm = (form: string, language: string | undefined): Promise<Invitation> =>
  callCore(async (core, finders) => core.emails.preview({ formId: await finders.form(form), language }), {
    names: { language: "--language" },
    notFound: NO_FORM,
  });

/** The given language, or all. */
function chooseLanguages(templates: Templates, given: string | undefined): string[] {
  if (given === undefined) return templates.languages;
  const language = canonicalLanguage(given) ?? given;
  const issue = templates.issueWith(language);
  if (issue) throw CommandFailure.ofFields([{ field: "--language", issue }]);
  return [language];
}

/** Writes the templates in use. Overwrites none. Returns their paths. */
export async function writeTemplates({ language, output }: Language & { output: string }): Promise<string[]> {
  const templates = await loadTemplates(readSettings());
  const files = chooseLanguages(templates, language).flatMap((each) => templates.filesOf(each));
  await mkdir(output, { recursive: true });
  const present = await readdir(output);
  const conflict = files.find(({ file }) => present.includes(file));
  if (conflict) {
    throw new CommandFailure(
      `${join(output, conflict.file)} exists already, and nothing was written. Choose another --output.`,
    );
  }
  return Promise.all(
    files.map(async ({ file, source }) => {
      const path = join(output, file);
      await writeNew(path, (created) => created.writeFile(source), 0o644);
      return path;
    }),
  );
}

/** Sends an example. Replies go to the same address, if EMAIL_REPLY_TO_OWNER lets them go to the owner. */
export async function sendExample({ language, to }: Language & { to: string }) {
  const settings = readSettings();
  const templates = await loadTemplates(settings);
  const [tag = null] = language === undefined ? [] : chooseLanguages(templates, language);
  if (!emailAddress.safeParse(to).success) {
    throw CommandFailure.ofFields([{ field: "--to", issue: "must be an email address" }]);
  }
  const mailer = await smtpMailer(settings);
  if (!mailer) throw new CommandFailure("SMTP_URL is not set: set it to the URL of your mail server.");
  const example = exampleFacts(tag);
  const facts = { ...example, host: { name: example.host?.name ?? null, email: to } };
  const messageId = messageIdOf(settings, { id: "", kind: INVITATION, formId: randomUUID(), repeatId: null });
  const message = composeInvitation(settings, templates, { ...facts, messageId, to });
  const reply = await mailer.send(message, to).catch((error: unknown) => {
    throw error instanceof MailRejected
      ? new CommandFailure(`The mail server did not take it: ${error.message}`)
      : error;
  });
  return { messageId, reply, subject: message.subject };
}
