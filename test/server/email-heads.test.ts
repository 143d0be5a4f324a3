import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { composeInvitation } from "../../server/emails/invitation.js";
import { addsLink } from "../../server/emails/links.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { TEXTS } from "../../server/emails/texts.js";
import { exampleFacts } from "../../server/emails/variables.js";
import { makeTempFolder } from "../support/run-tool.js";

const LINKS = [
  "Payment overdue! Verify your card at https://evil.example/pay now",
  "evil.example",
  "Loft (evil.example)",
  "Loft,evil.example",
  "EVIL.EXAMPLE/login",
  "www.evil",
  "ftp://evil",
  "javascript://x",
  "security@paypal.com",
  "security@localhost",
  'security@paypal.com, "x" <a@b.example>',
  "call me @ home",
  "security＠paypal",
  "security﹫paypal",
  "evil．example",
  "evil․example",
  "evil。example",
  "evil｡example",
  "ｗｗｗ．evil",
  "evil\u200d.example",
  "evil.\ufe0fexample",
  "ev\u00adil.ex\u200bample",
  "exämple.рф",
  "हिन्दी.भारत",
  "xn--80ak6aa92e.xn--p1ai",
  "💩.la",
  "http 127.0.0.1/login",
];

const TITLES = [
  "St. Pauli Loft",
  "Apt. 5",
  "Apt.5",
  "Haus 3, 2. Stock",
  "3.5 rooms",
  "z.B. Zimmer e.V.",
  "Loft...Berlin",
  "Loft…Berlin",
  "Bed & Breakfast: Anna's",
  "24/7 check-in",
  "Čajovna „U řeky“ 🏡",
  "دار. السلام",
  "公寓,近地铁",
  "🏴󠁧󠁢󠁥󠁮󠁧󠁿 Cottage",
];

// Rows from before texts were checked.
const HIDDEN = ["Loft \u202egnp", "Loft\u2028Bcc", "Lo\u200bft"];

const SMTP_FROM = '"{listing} via Stays" <stays@example.com>';

async function compose(title: string, env: Record<string, string> = {}, language = "en") {
  const settings = readSettings({ SMTP_FROM, ...env });
  const facts = exampleFacts(language);
  return composeInvitation(settings, await loadTemplates(settings), {
    ...facts,
    listing: { ...facts.listing, title },
    host: { name: title, email: "host@example.com" },
    formId: "1",
    repeatId: null,
    to: "guest@example.com",
  });
}

test.each([...LINKS, ...HIDDEN])(
  "a title with a link or an address is in no From, subject or Reply-To: %s",
  async (title) => {
    const message = await compose(title, { EMAIL_REPLY_TO_OWNER: "true" });
    expect(message.subject).toBe("Guest form to fill in");
    expect(message.from).toEqual({ name: "", address: "stays@example.com" });
    expect(message.replyTo).toEqual({ name: "", address: "host@example.com" });
    const named = await compose(title, { EMAIL_SENDER_NAME: "Seaside Stays" });
    expect(named.from.name).toBe("Seaside Stays");
    // The text of the listing stays in the email, as its owner wrote it.
    expect(message.text).toContain(title);
  },
);

test.each(TITLES)("any other title is in From and the subject: %s", async (title) => {
  const { subject, from, replyTo } = await compose(title, { EMAIL_REPLY_TO_OWNER: "true" });
  expect(subject).toBe(`Guest form to fill in: ${title}`);
  expect(from.name).toBe(`${title} via Stays`);
  expect(replyTo).toMatchObject({ name: title });
});

test.each(Object.keys(TEXTS))("in %s the subject without a title is complete", async (language) => {
  const { subject } = await compose("evil.example", {}, language);
  expect(subject).toMatch(/^\p{L}[\p{L} ]{9,}\p{L}$/u);
  expect(TEXTS[language]?.subject).toMatch(new RegExp(`^${subject}\\s?: `));
});

async function ownSubject(source: string, language = "en"): Promise<string> {
  const EMAIL_TEMPLATES = await makeTempFolder("own-subjects");
  await writeFile(join(EMAIL_TEMPLATES, `invitation.${language}.subject.txt`), source);
  await writeFile(join(EMAIL_TEMPLATES, `invitation.${language}.txt`), "{{ link }}");
  await writeFile(join(EMAIL_TEMPLATES, `invitation.${language}.html`), '<a href="{{ link }}">x</a>');
  return EMAIL_TEMPLATES;
}

test.each([
  ["{{ listing.title }}, {{ listing.city }}: form", ", : form"],
  ["Form – {{ listing.title }}", "Form"],
  ["{{ host.name }} asks", "asks"],
  ["{{ listing.title | replace: 'evil', 'other' }}", "Registration for your stay"],
  ["Stays.example: {{ listing.title }}", "Stays.example"],
  ["{% if listing.title %}{{ listing.title }}{% else %}Your stay{% endif %}", "Your stay"],
])("an own subject is rendered without the texts of tenants if they add a link: %s", async (source, expected) => {
  const EMAIL_TEMPLATES = await ownSubject(source);
  expect((await compose("evil.example", { EMAIL_TEMPLATES })).subject).toBe(expected);
  expect((await compose("Loft", { EMAIL_TEMPLATES })).subject).toContain(
    source.includes("asks") ? "Loft asks" : "Loft",
  );
});

test("an own subject of a language without built-in texts falls back to English", async () => {
  const EMAIL_TEMPLATES = await ownSubject("{{ listing.title }}", "pl");
  const { subject } = await compose("evil.example", { EMAIL_TEMPLATES }, "pl");
  expect(subject).toBe("Registration for your stay");
});

test("the operator's own links stay, also if two harmless texts of a tenant would make one", async () => {
  expect(addsLink("Loft at stays.example", " at stays.example")).toBe(false);
  const EMAIL_TEMPLATES = await ownSubject("Form at stays.example: {{ listing.title }}{{ listing.city }}");
  expect((await compose("Loft ", { EMAIL_TEMPLATES })).subject).toBe("Form at stays.example: Loft Berlin");
  expect((await compose("evil.", { EMAIL_TEMPLATES })).subject).toBe("Form at stays.example");
});
