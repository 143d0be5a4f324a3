import { escapeHtml } from "../../server/values.js";

/** Escaped markup. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** `undefined` and `false` print nothing. */
type Value = Html | string | number | false | undefined | readonly Value[];

function print(value: Value): string {
  if (value === undefined || value === false) return "";
  if (value instanceof Html) return value.text;
  if (typeof value === "string" || typeof value === "number") return escapeHtml(String(value));
  return value.map(print).join("");
}

/** Template tag that escapes every value that is not `Html`. */
export const html = (strings: TemplateStringsArray, ...values: Value[]): Html =>
  new Html(String.raw({ raw: strings }, ...values.map(print)));

const HEADING = /<h([123])(?: id="([^"]+)")?>(.*?)<\/h\1>/s;

/**
 * The headings of a page, each with the text up to the next one, for the navigation and the search. Without the samples and forms
 * of the reference, which are alike.
 */
export function sectionsOf({ text: content }: Html) {
  const [, ...parts] = content.replace(/<div class="samples">.*?<\/article>/gs, "").split(HEADING);
  return Array.from({ length: parts.length / 4 }, (_, index) => {
    const [level, id = "", title = "", text = ""] = parts.slice(4 * index, 4 * index + 4);
    return { level: Number(level), id, title: plainText(title), text: plainText(text) };
  });
}

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', "#39": "'" };

/** The text of markup, on one line. */
export const plainText = (markup: string) =>
  markup
    .replace(/<[^>]*>/g, " ")
    .replace(/&(lt|gt|amp|quot|#39);/g, (_, name) => ENTITIES[name] ?? "")
    .replace(/\s+/g, " ")
    .trim();
