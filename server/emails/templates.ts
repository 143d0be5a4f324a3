import { join } from "node:path";
import { type Settings, SettingsError } from "../config.js";
import { openCompiler, type Render } from "./compiler.js";
import type { InvitationFacts } from "./facts.js";
import { fileOf, languageOf, readFolder } from "./folder.js";
import { LAYOUT, type Part } from "./layout.js";
import { addsLink, findLinks } from "./links.js";
import type { Invitation } from "./schema.js";
import { TEXTS } from "./texts.js";
import { type Variables, variablesOf, withoutTenantTexts } from "./variables.js";

interface PartTemplate {
  source: string;
  render: Render;
}

type ByPart = Record<Part, PartTemplate>;

/** Locale of a language without a region, if it is not that of the country with most speakers. */
const EUROPEAN: Record<string, string> = { en: "en-GB", pt: "pt-PT" };

/**
 * Loads the templates in EMAIL_TEMPLATES, and the built-in ones for the parts that it lacks. Throws SettingsError, which
 * names the file and the line of a fault.
 */
export async function loadTemplates(settings: Settings): Promise<Templates> {
  const { EMAIL_TEMPLATES: folder = "", EMAIL_LANGUAGE } = settings;
  const files = folder ? await readFolder(folder) : new Map<string, string>();
  const compile = openCompiler(settings);
  const load = (language: string, part: Part): PartTemplate => {
    const file = fileOf(language, part);
    const path = join(folder, file);
    const own = files.get(file);
    if (own !== undefined) return { source: own, render: compile(own, { path, part, language }) };
    const source = builtIn(language, part);
    if (source === undefined) throw new SettingsError(`${path} is missing: there is no built-in one in ${language}.`);
    // Tests check these. Compiling all of them takes 0.1 s.
    let compiled: Render | undefined;
    const render: Render = (variables) => {
      compiled ??= compile(source, { path, part, language });
      return compiled(variables);
    };
    return { source, render };
  };
  const languages = [...new Set([...Object.keys(TEXTS), ...[...files.keys()].map(languageOf)])].sort();
  const byLanguage = languages.map((language): [string, ByPart] => [
    language,
    { subject: load(language, "subject"), text: load(language, "text"), html: load(language, "html") },
  ]);
  const templates = new Templates(settings, new Map(byLanguage));
  const issue = templates.issueWith(EMAIL_LANGUAGE);
  if (issue) throw new SettingsError(`EMAIL_LANGUAGE is ${EMAIL_LANGUAGE}, but ${issue}.`);
  return templates;
}

/**
 * Renders the subject: without the texts of the listing and its owner if they add a link or an address, because subjects are read as
 * the operator's words.
 */
function renderSubject({ render }: PartTemplate, variables: Variables): string {
  const subject = render(variables);
  // The short title may have lost the link of the title, but not the words that lead to it.
  const judged = `${subject} ${variables.listing.title}`;
  if (findLinks(judged).length === 0) return subject;
  const own = render(withoutTenantTexts(variables));
  if (!addsLink(judged, own)) return subject;
  const { heading = "" } = TEXTS[new Intl.Locale(variables.language).language] ?? TEXTS.en ?? {};
  return own.replace(/[\s\p{Pd}:]+$/u, "") || heading;
}

function builtIn(language: string, part: Part): string | undefined {
  const texts = new Map(Object.entries(TEXTS[new Intl.Locale(language).language] ?? {}));
  if (texts.size === 0) return undefined;
  return LAYOUT[part].replace(/\[\[(\w+)\]\]/g, (_, name) => {
    const text = texts.get(name);
    if (text === undefined) throw new Error(`The layout names a text that does not exist: ${name}`);
    // The direction of a value does not change the order of the words around it.
    return part === "html" ? text.replace(/\{\{.*?\}\}/g, "<bdi>$&</bdi>") : text;
  });
}

/** The templates of the invitation. */
export class Templates {
  readonly #settings: Settings;
  readonly #byLanguage: Map<string, ByPart>;

  constructor(settings: Settings, byLanguage: Map<string, ByPart>) {
    this.#settings = settings;
    this.#byLanguage = byLanguage;
  }

  get languages(): string[] {
    return [...this.#byLanguage.keys()];
  }

  /** Why nothing can be rendered in this language; undefined if it can. */
  issueWith(tag: string): string | undefined {
    const issue = `must be one of ${this.languages.join(", ")}, in which there are templates`;
    return this.#find(tag) ? undefined : issue;
  }

  /** The files that EMAIL_TEMPLATES needs for the same invitation in this language. */
  filesOf(tag: string): { file: string; source: string }[] {
    const { templates } = this.#find(tag) ?? {};
    const parts = Object.entries(templates ?? {}) as [Part, PartTemplate][];
    return parts.map(([part, { source }]) => ({ file: fileOf(tag, part), source }));
  }

  /** Renders in `tag`, else in the listing's language, else in EMAIL_LANGUAGE. */
  render(facts: InvitationFacts, tag?: string): Invitation {
    const { EMAIL_LANGUAGE } = this.#settings;
    const tags = [tag, facts.listing.language, EMAIL_LANGUAGE].filter((each) => typeof each === "string");
    const [found] = tags.flatMap((each) => this.#find(each) ?? []);
    if (!found) throw new Error(`There is no template in ${EMAIL_LANGUAGE}.`);
    const { language, locale, templates } = found;
    const variables = variablesOf(facts, this.#settings, { language, locale });
    return {
      language,
      subject: renderSubject(templates.subject, variables),
      text: templates.text.render(variables),
      html: templates.html.render(variables),
    };
  }

  /** The templates for a language tag, or else for it without its last parts, such as the region (RFC 4647, 3.4). */
  #find(tag: string) {
    const subtags = tag.split("-");
    for (let length = subtags.length; length > 0; length--) {
      const language = subtags.slice(0, length).join("-");
      const templates = this.#byLanguage.get(language);
      if (templates) return { language, locale: EUROPEAN[tag] ?? tag, templates };
    }
    return undefined;
  }
}
