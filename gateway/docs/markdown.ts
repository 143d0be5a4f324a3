import { Marked } from "marked";
import { escapeHtml } from "../../server/values.js";
import { Html, html } from "./html.js";

export type Markdown = ReturnType<typeof createMarkdown>;

/** Like GitHub's, so that links between the guides work there too. */
const slug = (title: string) =>
  title
    .toLowerCase()
    .replace(/[^\w\s-]/g, "")
    .replace(/\s/g, "-");

/** Inline code that is a key of `links` becomes a link. */
export function createMarkdown(links: ReadonlyMap<string, string>) {
  const marked = new Marked({
    renderer: {
      heading: ({ depth, text }) =>
        depth === 1
          ? html`<h1>${text}</h1>`.text
          : html`<h${depth} id="${slug(text)}"><a href="#${slug(text)}">${text}</a></h${depth}>`.text,
      // The marks of generated parts.
      html: () => "",
      code: ({ text, lang }) => codeBlock(text, lang ?? "").text,
      codespan({ text }) {
        const code = `<code>${escapeHtml(text)}</code>`;
        const target = links.get(text);
        return target === undefined ? code : `<a href="${target}">${code}</a>`;
      },
      table(token) {
        const cells = (row: typeof token.header, tag: "th" | "td") =>
          `<tr>${row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("")}</tr>`;
        const body = token.rows.map((row) => cells(row, "td")).join("");
        const label = `Table: ${token.header.map(({ text }) => plain(text)).join(", ")}`;
        return `<div class="table" role="group" aria-label="${escapeHtml(label)}" tabindex="0"><table><thead>${cells(token.header, "th")}</thead><tbody>${body}</tbody></table></div>`;
      },
    },
  });
  return {
    page(source: string) {
      return new Html(marked.parse(source, { async: false }));
    },
    /** One paragraph, without the `<p>`. */
    inline: (source: string) => new Html(marked.parseInline(source, { async: false })),
  };
}

export const codeBlock = (source: string, language: string): Html =>
  html`<pre data-language="${language}"><code>${highlight(source)}</code></pre>`;

const TOKEN =
  /(?<comment>(?<=^|\s)(?:#|\/\/) .*)|(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)|(?<keyword>(?<![\w.$-])(?:async|await|const|def|echo|export|for|from|function|if|import|new|of|return|throw|with)(?![\w-]))/gm;

/** Marks comments, strings and keywords, in all languages of the samples. */
function highlight(source: string): Html {
  const parts: Html[] = [];
  let end = 0;
  for (const match of source.matchAll(TOKEN)) {
    const [kind = ""] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? [];
    parts.push(html`${source.slice(end, match.index)}<span class="${kind}">${match[0]}</span>`);
    end = match.index + match[0].length;
  }
  return html`${parts}${source.slice(end)}`;
}

const plain = (source: string) =>
  source
    .replace(/\]\([^)]*\)/g, " ")
    .replace(/^```.*$|[`*|[\]]|-{3,}/gm, " ")
    .replace(/\s+/g, " ")
    .trim();
