import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { composeInvitation } from "../../server/emails/invitation.js";
import { addsLink } from "../../server/emails/links.js";
import { messageIdOf } from "../../server/emails/message-id.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { TEXTS } from "../../server/emails/texts.js";
import { makeTempFolder } from "../support/run-tool.js";
import { LINK, type Overrides, openTemplates, SENDER, stay, withoutNbsp } from "./example-stay.js";

const compose = async (env: Record<string, string>, facts: Overrides = {}) => {
  const settings = readSettings(env);
  const messageId = messageIdOf(settings, { id: "1", kind: "invitation", formId: "f1", repeatId: null });
  const notice = { ...stay(facts), messageId, to: "guest@example.com" };
  return composeInvitation(settings, await loadTemplates(settings), notice);
};

describe("the built-in invitation", () => {
  // Versions of Node.js differ in commas.
  const LANGUAGES: [string, RegExp, RegExp, RegExp][] = [
    [
      "de",
      /Donnerstag, 1\. Juli 2055 um 15:00 Uhr/,
      /spätestens Donnerstag, 1\. Juli 2055\./,
      /Mitteleuropäische Zeit/,
    ],
    ["en", /Thursday,? 1 July 2055 at 15:00/, /by Thursday,? 1 July 2055\./, /Central European Time/],
    ["es", /jueves, 1 de julio de 2055, 15:00/, /el jueves, 1 de julio de 2055\./, /hora de Europa central/i],
    ["fr", /jeudi 1er juillet 2055 à 15:00/, /le jeudi 1er juillet 2055\./, /heure .*Europe centrale/],
    ["it", /giovedì 1 luglio 2055 alle ore 15:00/, /giovedì 1 luglio 2055\./, /ora .*Europa centrale/i],
    ["nl", /donderdag 1 juli 2055 om 15:00/, /op donderdag 1 juli 2055\./, /Midden-Europese tijd/],
    ["pt", /quinta-feira, 1 de julho de 2055 às 15:00/, /quinta-feira, 1 de julho de 2055\./, /Europa Central/],
  ];

  test("is in the languages that are tested", async () => {
    expect((await openTemplates()).languages).toEqual(LANGUAGES.map(([language]) => language));
  });

  test.each(LANGUAGES)("in %s has the stay, the link and the sender, as text and as HTML", async (...row) => {
    const [language, checkIn, deadline, timeZone] = row;
    const { subject, text, html } = (await openTemplates(SENDER)).render(stay(), language);
    const visible = html.replace(/<style>[\s\S]*<\/style>|<[^>]*>/g, "").replaceAll("&amp;", "&");
    for (const part of [text, visible].map(withoutNbsp)) {
      for (const value of [
        ...Object.values(SENDER),
        LINK,
        "Anna Berger",
        "Loft by the canal",
        "10999 Berlin, Germany",
      ]) {
        expect(part).toContain(value);
      }
      for (const pattern of [checkIn, deadline, timeZone, /\b8\b\D+2055\D+11:00/]) expect(part).toMatch(pattern);
    }
    expect(html.split(`href="${LINK}"`)).toHaveLength(3);
    expect(html).toContain(`<html lang="${language}">`);
    expect(subject).toContain("Loft by the canal");
    expect(subject + text + html).not.toMatch(/\[\[|\]\]|\{\{|\{%|undefined|null/);
  });

  test.each(LANGUAGES)(
    "in %s has a subject of less than 60 characters, with the start of a long title",
    async (language) => {
      const title = `Très grand appartement 👩‍👩‍👧‍👦 ${"avec vue sur le port ".repeat(7)}`.trim();
      const { subject, text } = (await openTemplates()).render(stay({ listing: { title } }), language);
      expect([...new Intl.Segmenter().segment(subject)].length).toBeLessThan(60);
      expect(subject).toContain("Très grand appartement 👩‍👩‍👧‍👦 avec…");
      expect(text).toContain(title);
    },
  );

  test.each(LANGUAGES)(
    "in %s leaves out what is unknown, and asks for the form soon once the check-in has passed",
    async (language) => {
      const templates = await openTemplates();
      const full = templates.render(stay(), language).text.split("\n");
      const facts = stay({
        checkInDate: "2020-07-01T13:00:00.000Z",
        checkOutDate: null,
        numberOfGuests: null,
        host: null,
      });
      const { text, html } = templates.render(facts, language);
      expect(full.length - text.split("\n").length).toBe(2);
      expect(text).not.toMatch(/\n\n\n/);
      expect(text + html).not.toMatch(/2055|Anna|undefined|null/);
      expect(text).toContain("2020");
    },
  );

  test("escapes every value in HTML", async () => {
    const markup = `<b onclick=x>'"&amp;`;
    const place = { title: markup, address: markup, zipCode: markup, city: markup, country: markup };
    const facts = stay({ listing: place, host: { name: markup, email: "a@example.com" } });
    const { html } = (await openTemplates({ EMAIL_SENDER_NAME: markup, EMAIL_CONTACT: markup })).render(facts);
    expect(html).not.toContain("<b ");
    // The title is in the invitation and above the address, the sender only at the top: the host has the same name.
    expect(html.split("&lt;b onclick=x&gt;&#39;&#34;&amp;amp;")).toHaveLength(1 + 2 + 4 + 1 + 1 + 1);
  });

  test("renders no variable in a value", async () => {
    const { subject, text } = (await openTemplates()).render(stay({ listing: { title: "{{ link }} [[why]]" } }));
    expect(subject).toContain("{{ link }} [[why]]");
    expect(text).toContain("{{ link }} [[why]]");
  });

  test("shows a right-to-left title in its own direction", async () => {
    const title = "דירה על שפת הים (תל אביב)";
    const { subject, html } = (await openTemplates()).render(stay({ listing: { title } }));
    expect(subject).toContain(title);
    expect(html).toContain(`<bdi>${title}</bdi>`);
    expect(html).toMatch(new RegExp(`dir="auto"[^>]*>${title.replace(/[()]/g, "\\$&")}<`));
  });
});

describe("the language of the invitation", () => {
  test.each([
    ["the listing's", "fr", "de", "fr", /jeudi 1er juillet/],
    ["EMAIL_LANGUAGE if the listing has none", null, "de", "de", /Donnerstag, 1\. Juli/],
    ["EMAIL_LANGUAGE if there is no template in the listing's", "sv", "nl", "nl", /donderdag 1 juli/],
    ["English if neither is set", null, "", "en", /Thursday,? 1 July 2055 at 15:00/],
    ["the listing's without its last parts", "de-Latn-CH-1901", "fr", "de", /Donnerstag, 1\. Juli/],
    [
      "the listing's without its region, with dates as in the region",
      "en-US",
      "de",
      "en",
      /Thursday, July 1, 2055 at 3:00.PM/,
    ],
  ])("is %s", async (_, language, EMAIL_LANGUAGE, expected, date) => {
    const rendered = (await openTemplates({ EMAIL_LANGUAGE })).render(stay({ listing: { language } }));
    expect(rendered.language).toBe(expected);
    expect(withoutNbsp(rendered.text)).toMatch(date);
  });
});

describe("the head of the invitation", () => {
  test.each([
    ["{listing} $& $$ <a@example.com>", { name: "Loft by the canal $& $$", address: "a@example.com" }],
    ["stays@Example.com", { name: "", address: "stays@Example.com" }],
    ["Seaside Stays <a.b@example.com>", { name: "Seaside Stays", address: "a.b@example.com" }],
    ['"Sea, side" <a@example.com>', { name: "Sea, side", address: "a@example.com" }],
    ["{listing} <a@example.com>", { name: "Loft by the canal", address: "a@example.com" }],
    ['"{listing} (Seaside)" <a@example.com>', { name: "Loft by the canal (Seaside)", address: "a@example.com" }],
  ])("is from the sender in SMTP_FROM: %s", async (SMTP_FROM, from) => {
    expect((await compose({ SMTP_FROM })).from).toEqual(from);
  });

  test("names the sender by EMAIL_SENDER_NAME, else by the name in SMTP_FROM without a placeholder, else not", async () => {
    const footer = async (env: Record<string, string>) =>
      /Sent by (.*) on behalf/.exec(`${(await compose(env)).text}`)?.[1];
    expect(await footer({ EMAIL_SENDER_NAME: "Seaside", SMTP_FROM: "Other <a@example.com>" })).toBe("Seaside");
    expect(await footer({ SMTP_FROM: "Other <a@example.com>" })).toBe("Other");
    expect(await footer({ SMTP_FROM: "{listing} <a@example.com>" })).toBeUndefined();
    expect(await footer({ SMTP_FROM: "a@example.com" })).toBeUndefined();
  });

  test("has a Message-ID in the sender's domain, and the owner's address only if EMAIL_REPLY_TO_OWNER allows it", async () => {
    const SMTP_FROM = "Stays <stays@mail.example.org>";
    expect(await compose({ SMTP_FROM: "stays@müller.de" })).toMatchObject({ messageId: "<form-f1@xn--mller-kva.de>" });
    expect(await compose({ SMTP_FROM })).toMatchObject({ messageId: "<form-f1@mail.example.org>" });
    expect(await compose({ SMTP_FROM })).not.toHaveProperty("replyTo");
    const env = { SMTP_FROM, EMAIL_REPLY_TO_OWNER: "true" };
    expect(await compose(env)).toMatchObject({ replyTo: { name: "Anna Berger", address: "anna@example.com" } });
    expect(await compose(env, { host: null })).not.toHaveProperty("replyTo");
  });
});

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

async function composeFor(title: string, env: Record<string, string> = {}, language = "en") {
  return compose(
    { SMTP_FROM, ...env },
    { listing: { title, language }, host: { name: title, email: "host@example.com" } },
  );
}

test.each([...LINKS, ...HIDDEN])(
  "a title with a link or an address is in no From, subject or Reply-To: %s",
  async (title) => {
    const message = await composeFor(title, { EMAIL_REPLY_TO_OWNER: "true" });
    expect(message.subject).toBe("Guest form to fill in");
    expect(message.from).toEqual({ name: "", address: "stays@example.com" });
    expect(message.replyTo).toEqual({ name: "", address: "host@example.com" });
    const named = await composeFor(title, { EMAIL_SENDER_NAME: "Seaside Stays" });
    expect(named.from.name).toBe("Seaside Stays");
    // The text of the listing stays in the email, as its owner wrote it.
    expect(message.text).toContain(title);
  },
);

test.each(TITLES)("any other title is in From and the subject: %s", async (title) => {
  const { subject, from, replyTo } = await composeFor(title, { EMAIL_REPLY_TO_OWNER: "true" });
  expect(subject).toBe(`Guest form to fill in: ${title}`);
  expect(from.name).toBe(`${title} via Stays`);
  expect(replyTo).toMatchObject({ name: title });
});

test.each(Object.keys(TEXTS))("in %s the subject without a title is complete", async (language) => {
  const { subject } = await composeFor("evil.example", {}, language);
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
  expect((await composeFor("evil.example", { EMAIL_TEMPLATES })).subject).toBe(expected);
  expect((await composeFor("Loft", { EMAIL_TEMPLATES })).subject).toContain(
    source.includes("asks") ? "Loft asks" : "Loft",
  );
});

test("an own subject of a language without built-in texts falls back to English", async () => {
  const EMAIL_TEMPLATES = await ownSubject("{{ listing.title }}", "pl");
  const { subject } = await composeFor("evil.example", { EMAIL_TEMPLATES }, "pl");
  expect(subject).toBe("Registration for your stay");
});

test("the operator's own links stay, also if two harmless texts of a tenant would make one", async () => {
  expect(addsLink("Loft at stays.example", " at stays.example")).toBe(false);
  const EMAIL_TEMPLATES = await ownSubject("Form at stays.example: {{ listing.title }}{{ listing.city }}");
  expect((await composeFor("Loft ", { EMAIL_TEMPLATES })).subject).toBe("Form at stays.example: Loft Berlin");
  expect((await composeFor("evil.", { EMAIL_TEMPLATES })).subject).toBe("Form at stays.example");
});
