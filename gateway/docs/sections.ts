import type { Html } from "./html.js";

/** A heading of a page and the text up to the next one, for the navigation and the search. */
interface Section {
  level: number;
  id: string;
  title: string;
  text: string;
}

const HEADING = /<h([123])(?: id="([^"]+)")?>(.*?)<\/h\1>/s;

/** Without the samples and forms of the reference, which are alike. */
export function sectionsOf({ text: content }: Html): Section[] {
  const [, ...parts] = content.replace(/<div class="samples">.*?<\/article>/gs, "").split(HEADING);
  return Array.from({ length: parts.length / 4 }, (_, index) => {
    const [level, id = "", title = "", text = ""] = parts.slice(4 * index, 4 * index + 4);
    return { level: Number(level), id, title: plain(title), text: plain(text) };
  });
}

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', "#39": "'" };

const plain = (content: string) =>
  content
    .replace(/<[^>]*>/g, " ")
    .replace(/&(lt|gt|amp|quot|#39);/g, (_, name) => ENTITIES[name] ?? "")
    .replace(/\s+/g, " ")
    .trim();
