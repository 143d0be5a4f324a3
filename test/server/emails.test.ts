import { readFileSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings } from "../../server/config.js";
import type { InvitationFacts } from "../../server/emails/facts.js";
import { composeInvitation } from "../../server/emails/invitation.js";
import { loadTemplates } from "../../server/emails/templates.js";
import { exampleFacts, variablesOf } from "../../server/emails/variables.js";
import { makeTempFolder } from "../support/run-tool.js";

const SENDER = {
  EMAIL_SENDER_NAME: "Seaside Stays GmbH",
  EMAIL_CONTACT: "help@seaside.example",
  EMAIL_PRIVACY_URL: "https://seaside.example/privacy?a=1&b=2",
};
const LINK = "https://your-app.example.com/register/V1StGXR8_Z5jdHi6B-myT";

const openTemplates = (env: Record<string, string> = {}) => loadTemplates(readSettings(env));

type Overrides = Partial<Omit<InvitationFacts, "listing">> & { listing?: Partial<InvitationFacts["listing"]> };

/** A stay that is fixed, for decades. */
function stay({ listing, ...form }: Overrides = {}): InvitationFacts {
  const example = exampleFacts();
  return {
    ...example,
    checkInDate: "2055-07-01T13:00:00.000Z",
    checkOutDate: "2055-07-08T09:00:00.000Z",
    ...form,
    listing: { ...example.listing, ...listing },
  };
}

const folders = await makeTempFolder("templates");

/** With ordinary spaces. */
const withoutNbsp = (text: string) => text.replaceAll("\u00a0", " ");

/** Writes these files to a new folder. */
async function makeFolder(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await mkdtemp(join(folders, "f"));
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return folder;
}

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

describe("a folder of templates", () => {
  test("replaces the parts that it has, in its languages", async () => {
    const EMAIL_TEMPLATES = await makeFolder({
      "invitation.de.subject.txt": "\uFEFFWillkommen in {{ listing.city }},\n{{ listing.shortTitle | upcase }}\n",
      "invitation.de.html": '<a href="{{ link }}">{{ listing.title }}</a>{% if host.name %} {{ host.name }}{% endif %}',
      "notes.md": "not a template",
    });
    const templates = await openTemplates({ EMAIL_TEMPLATES });
    const facts = stay({ listing: { title: "Haus & Hof" } });
    expect(templates.render(facts, "de")).toEqual({
      language: "de",
      subject: "Willkommen in Berlin, HAUS & HOF",
      text: (await openTemplates()).render(facts, "de").text,
      html: `<a href="${LINK}">Haus &amp; Hof</a> Anna Berger`,
    });
    expect(templates.render(facts, "en")).toEqual((await openTemplates()).render(facts, "en"));
  });

  test("adds languages and regions", async () => {
    const EMAIL_TEMPLATES = await makeFolder({
      "invitation.pl.subject.txt": "Rejestracja: {{ listing.shortTitle }}",
      "invitation.pl.txt": "{{ stay.checkIn }}: {{ link }}",
      "invitation.pl.html": '<a href="{{ link }}">{{ stay.checkIn }}</a>',
      "invitation.pt-BR.subject.txt": "Seu registro",
    });
    const templates = await openTemplates({ EMAIL_TEMPLATES, EMAIL_LANGUAGE: "pl" });
    expect(templates.languages).toEqual(["de", "en", "es", "fr", "it", "nl", "pl", "pt", "pt-BR"]);
    expect(withoutNbsp(templates.render(stay()).text)).toMatch(/^czwartek,? 1 lipca 2055 15:00: https/);
    const brazilian = templates.render(stay({ listing: { language: "pt-BR" } }));
    expect(brazilian).toMatchObject({ language: "pt-BR", subject: "Seu registro" });
    expect(brazilian.text).toContain("Olá");
    expect(templates.render(stay({ listing: { language: "pt" } })).subject).not.toBe("Seu registro");
  });

  test("written from the built-in templates renders the same", async () => {
    const templates = await openTemplates(SENDER);
    const files = templates.languages.flatMap((language) => templates.filesOf(language));
    const EMAIL_TEMPLATES = await makeFolder(Object.fromEntries(files.map(({ file, source }) => [file, source])));
    const same = await openTemplates({ ...SENDER, EMAIL_TEMPLATES });
    for (const language of templates.languages) {
      expect(same.render(stay(), language)).toEqual(templates.render(stay(), language));
    }
  });

  const LINKED = "{{ link }}";
  test.each<[string, Record<string, string | Uint8Array>, RegExp]>([
    [
      "an unknown variable",
      { "invitation.de.txt": `${LINKED}\n\n{{ listing.titel }}` },
      /invitation\.de\.txt:3:4: there is no variable listing\.titel\. There are language, link, listing\.title,/,
    ],
    [
      "an unknown variable in a condition",
      { "invitation.de.html": `${LINKED}{% if guest %}{% endif %}` },
      /invitation\.de\.html:1:17: there is no variable guest\./,
    ],
    [
      "a group of variables",
      { "invitation.de.txt": `${LINKED}{{ listing }}` },
      /de\.txt:1:14: there is no variable listing\./,
    ],
    [
      "a computed name",
      { "invitation.de.txt": `${LINKED}{{ listing[language] }}` },
      /de\.txt:1:\d+: there is no variable listing\./,
    ],
    [
      "a tag that is not closed",
      { "invitation.fr.html": `\n${LINKED}{% if link %}` },
      /invitation\.fr\.html:2:11: tag .* not closed/,
    ],
    [
      "an output that is not closed",
      { "invitation.fr.subject.txt": "Bonjour {{ link" },
      /invitation\.fr\.subject\.txt:1:9: output .* not closed/,
    ],
    [
      "an unknown filter",
      { "invitation.de.txt": `${LINKED}{{ link | shout }}` },
      /de\.txt:1:11: undefined filter: shout/,
    ],
    ["an unknown tag", { "invitation.de.txt": `${LINKED}\n{% shout %}` }, /de\.txt:2:1: tag "shout" not found/],
    [
      "a tag for other files",
      { "invitation.de.txt": `${LINKED}{% include "/etc/passwd" %}` },
      /de\.txt:1:11: tag "include" not found/,
    ],
    ["no link", { "invitation.de.txt": "Hallo" }, /invitation\.de\.txt: \{\{ link \}\} is missing$/],
    [
      "no link without a host",
      { "invitation.de.txt": "{% if host.name %}{{ link }}{% endif %}" },
      /invitation\.de\.txt: \{\{ link \}\} is missing, if the form has no stay and the listing no owner$/,
    ],
    [
      "a link that cannot be pressed",
      { "invitation.de.html": '<a href="">{{ link }}</a>' },
      /invitation\.de\.html: there is no link to the form, such as <a href="\{\{ link \}\}">$/,
    ],
    [
      "an empty subject",
      { "invitation.de.subject.txt": "{{ host.name }}" },
      /invitation\.de\.subject\.txt: the subject is empty, if the form has no stay and the listing no owner/,
    ],
    [
      "a missing part of a language that is not built in",
      { "invitation.pl.txt": LINKED },
      /invitation\.pl\.subject\.txt is missing: there is no built-in one in pl\./,
    ],
    [
      "a misspelled name",
      { "invitaton.de.txt": LINKED },
      /invitaton\.de\.txt is not the name of a template\. Names are invitation\.LANGUAGE\.subject\.txt/,
    ],
    ["another ending", { "invitation.de.text": LINKED }, /invitation\.de\.text is not the name of a template/],
    [
      "a language that does not exist",
      { "invitation.german.txt": LINKED },
      /invitation\.german\.txt is not the name of a template/,
    ],
    [
      "a language in other than its canonical form",
      { "invitation.pt-br.txt": LINKED },
      /invitation\.pt-br\.txt is not the name of a template/,
    ],
    [
      "another encoding",
      { "invitation.de.txt": Uint8Array.of(0x47, 0xfc, 0x6e) },
      /invitation\.de\.txt is not in UTF-8/,
    ],
  ])("with %s is rejected, naming the file and the line", async (_, files, message) => {
    const EMAIL_TEMPLATES = await makeFolder(files);
    await expect(openTemplates({ EMAIL_TEMPLATES })).rejects.toThrow(message);
    await expect(openTemplates({ EMAIL_TEMPLATES })).rejects.toThrow(EMAIL_TEMPLATES);
  });

  test("whose loops get a huge number fails for this form only", async () => {
    const EMAIL_TEMPLATES = await makeFolder({
      "invitation.en.txt": "{{ link }}{% for i in (1..party.numberOfGuests) %} {{ i }}{% endfor %}",
    });
    const templates = await openTemplates({ EMAIL_TEMPLATES });
    expect(templates.render(stay({ numberOfGuests: 4 })).text).toBe(`${LINK} 1 2 3 4\n`);
    expect(() => templates.render(stay({ numberOfGuests: 2_147_483_647 }))).toThrow("memory alloc limit exceeded");
  });

  test("is checked with values that filters may not take", async () => {
    const EMAIL_TEMPLATES = await makeFolder({ "invitation.de.subject.txt": "{{ listing.title | url_decode }}" });
    await expect(openTemplates({ EMAIL_TEMPLATES })).rejects.toThrow(/de\.subject\.txt:1:\d+: URI malformed/);
  });

  test("that cannot be read, or a language without templates, is rejected", async () => {
    await expect(openTemplates({ EMAIL_TEMPLATES: "/nonexistent" })).rejects.toThrow(
      /EMAIL_TEMPLATES cannot be read: ENOENT.*\/nonexistent/,
    );
    await expect(openTemplates({ EMAIL_LANGUAGE: "sv" })).rejects.toThrow(
      "EMAIL_LANGUAGE is sv, but must be one of de, en,",
    );
  });

  test("may use the variables that operating.md lists", () => {
    const page = readFileSync(join(packageRoot(), "gateway/docs/operating.md"), "utf8");
    const [, table = ""] = page.split("| variable | value | always |");
    const documented = [...(table.split("\n\n")[0] ?? "").matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`([\w.]+)`/g)].map(([, name]) => name),
    );
    const variables = variablesOf(exampleFacts(), {}, { language: "en", locale: "en" });
    const names = Object.entries(variables).flatMap(([name, part]) =>
      typeof part === "string" ? [name] : Object.keys(part).map((key) => `${name}.${key}`),
    );
    expect(documented.sort()).toEqual(names.sort());
  });
});

describe("the head of the invitation", () => {
  const compose = async (env: Record<string, string>, facts: Overrides = {}) => {
    const settings = readSettings(env);
    const notice = { ...stay(facts), formId: "f1", repeatId: null, to: "guest@example.com" };
    return composeInvitation(settings, await loadTemplates(settings), notice);
  };

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
