import { join } from "node:path";
import { type Settings, SettingsError } from "../config.js";
import { openCompiler, type Render } from "./compiler.js";
import type { InvitationFacts } from "./facts.js";
import { fileOf, languageOf, readFolder } from "./folder.js";
import { LAYOUT, type Part } from "./layout.js";
import { TEXTS } from "./texts.js";
import { variablesOf } from "./variables.js";

export interface Invitation {
  /** Of the templates. */
  language: string;
  subject: string;
  text: string;
  html: string;
}

interface Template {
  file: string;
  source: string;
  render: Render;
}

/** How a language without a region writes dates, if not as in the country with most speakers. */
const EUROPEAN: Record<string, string> = { en: "en-GB", pt: "pt-PT" };

/** Of a language tag. */
const withoutRegion = (tag: string) => tag.split("-", 1)[0] ?? tag;

/** Loads and checks EMAIL_TEMPLATES. What it lacks is built in. Throws SettingsError, which names the file and the line. */
export async function loadTemplates(settings: Settings): Promise<Templates> {
  const { EMAIL_TEMPLATES: folder = "", EMAIL_LANGUAGE } = settings;
  const files = folder ? await readFolder(folder) : new Map<string, string>();
  const compile = openCompiler(settings);
  const load = (language: string, part: Part): Template => {
    const file = fileOf(language, part);
    const source = files.get(file) ?? builtIn(withoutRegion(language), part);
    const path = join(folder, file);
    if (source === undefined) throw new SettingsError(`${path} is missing: there is no built-in one in ${language}.`);
    return { file, source, render: compile(source, path, part) };
  };
  const languages = [...new Set([...Object.keys(TEXTS), ...[...files.keys()].map(languageOf)])].sort();
  const templates = new Templates(
    settings,
    new Map(
      languages.map((language) => [
        language,
        { subject: load(language, "subject"), text: load(language, "text"), html: load(language, "html") },
      ]),
    ),
  );
  const issue = templates.issueWith(EMAIL_LANGUAGE);
  if (issue) throw new SettingsError(`EMAIL_LANGUAGE is ${EMAIL_LANGUAGE}, but ${issue}.`);
  return templates;
}

function builtIn(language: string, part: Part): string | undefined {
  const texts = new Map(Object.entries(TEXTS[language] ?? {}));
  return texts.size > 0 ? LAYOUT[part].replace(/\[\[(\w+)\]\]/g, (_, name) => texts.get(name)) : undefined;
}

/** The templates of the invitation. */
export class Templates {
  readonly #settings: Settings;
  readonly #byLanguage: Map<string, Record<Part, Template>>;

  constructor(settings: Settings, byLanguage: Map<string, Record<Part, Template>>) {
    this.#settings = settings;
    this.#byLanguage = byLanguage;
  }

  get languages(): string[] {
    return [...this.#byLanguage.keys()];
  }

  /** Why nothing can be rendered in this language; undefined if it can. */
  issueWith(tag: string): string | undefined {
    return this.#languageFor(tag)
      ? undefined
      : `must be one of ${this.languages.join(", ")}, in which there are templates`;
  }

  /** The language whose templates are used for this tag: it, or the same without its region. Undefined if there are none. */
  #languageFor(tag: string): string | undefined {
    return [tag, withoutRegion(tag)].find((language) => this.#byLanguage.has(language));
  }

  /** The files of a language, for operators who want to change them. */
  filesOf(language: string): Template[] {
    return Object.values(this.#byLanguage.get(language) ?? {});
  }

  /** Renders in the language of `tag` or, by default, in the listing's or that of EMAIL_LANGUAGE: the first that there is. */
  render(facts: InvitationFacts, tag?: string): Invitation {
    const tags = [tag, facts.listing.language, this.#settings.EMAIL_LANGUAGE];
    for (const locale of tags) {
      const language = locale ? this.#languageFor(locale) : undefined;
      const templates = language && this.#byLanguage.get(language);
      if (!locale || !language || !templates) continue;
      const variables = variablesOf(facts, this.#settings, { language, locale: EUROPEAN[locale] ?? locale });
      return {
        language,
        subject: templates.subject.render(variables),
        text: templates.text.render(variables),
        html: templates.html.render(variables),
      };
    }
    throw new Error("EMAIL_LANGUAGE has no templates.");
  }
}
