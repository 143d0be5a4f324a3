import { readFileSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { exampleFacts, variablesOf } from "../../server/emails/variables.js";
import { makeTempFolder } from "../support/run-tool.js";
import { LINK, openTemplates, SENDER, stay, withoutNbsp } from "./example-stay.js";

const folders = await makeTempFolder("templates");

/** Writes these files to a new folder. */
async function makeFolder(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await mkdtemp(join(folders, "f"));
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return folder;
}

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
  test.each<[what: string, file: string, source: string | Uint8Array, message: RegExp]>([
    [
      "an unknown variable",
      "invitation.de.txt",
      `${LINKED}\n\n{{ listing.titel }}`,
      /:3:4: there is no variable listing\.titel\. There are language, link, listing\.title,/,
    ],
    [
      "an unknown variable in a condition",
      "invitation.de.html",
      `${LINKED}{% if guest %}{% endif %}`,
      /:1:17: there is no variable guest\./,
    ],
    ["a group of variables", "invitation.de.txt", `${LINKED}{{ listing }}`, /:1:14: there is no variable listing\./],
    [
      "a computed name",
      "invitation.de.txt",
      `${LINKED}{{ listing[language] }}`,
      /:1:\d+: there is no variable listing\./,
    ],
    ["a tag that is not closed", "invitation.fr.html", `\n${LINKED}{% if link %}`, /:2:11: tag .* not closed/],
    ["an output that is not closed", "invitation.fr.subject.txt", "Bonjour {{ link", /:1:9: output .* not closed/],
    ["an unknown filter", "invitation.de.txt", `${LINKED}{{ link | shout }}`, /:1:11: undefined filter: shout/],
    ["an unknown tag", "invitation.de.txt", `${LINKED}\n{% shout %}`, /:2:1: tag "shout" not found/],
    [
      "a tag for other files",
      "invitation.de.txt",
      `${LINKED}{% include "/etc/passwd" %}`,
      /:1:11: tag "include" not found/,
    ],
    ["no link", "invitation.de.txt", "Hallo", /: \{\{ link \}\} is missing$/],
    [
      "no link without a host",
      "invitation.de.txt",
      "{% if host.name %}{{ link }}{% endif %}",
      /: \{\{ link \}\} is missing, if the form has no stay and the listing no owner$/,
    ],
    [
      "a link that cannot be pressed",
      "invitation.de.html",
      '<a href="">{{ link }}</a>',
      /: there is no link to the form, such as <a href="\{\{ link \}\}">$/,
    ],
    [
      "an empty subject",
      "invitation.de.subject.txt",
      "{{ host.name }}",
      /: the subject is empty, if the form has no stay and the listing no owner/,
    ],
    [
      "a misspelled name",
      "invitaton.de.txt",
      LINKED,
      /invitaton\.de\.txt is not the name of a template\. Names are invitation\.LANGUAGE\.subject\.txt/,
    ],
    ["another ending", "invitation.de.text", LINKED, / is not the name of a template/],
    ["a language that does not exist", "invitation.german.txt", LINKED, / is not the name of a template/],
    ["a language in other than its canonical form", "invitation.pt-br.txt", LINKED, / is not the name of a template/],
    ["another encoding", "invitation.de.txt", Uint8Array.of(0x47, 0xfc, 0x6e), / is not in UTF-8/],
  ])("with %s is rejected, naming the file and the line", async (_, file, source, message) => {
    const EMAIL_TEMPLATES = await makeFolder({ [file]: source });
    for (const expected of [message, file, EMAIL_TEMPLATES])
      await expect(openTemplates({ EMAIL_TEMPLATES })).rejects.toThrow(expected);
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

  test("that cannot be read, or a language without templates or with a part of them, is rejected", async () => {
    await expect(openTemplates({ EMAIL_TEMPLATES: await makeFolder({ "invitation.pl.txt": LINKED }) })).rejects.toThrow(
      /invitation\.pl\.subject\.txt is missing: there is no built-in one in pl\./,
    );
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
