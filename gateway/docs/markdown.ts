import { Marked } from "marked";
import { escapeHtml } from "../../server/values.js";
import { Html, html, plainText } from "./html.js";

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
      heading: ({ depth, text }) => (depth === 1 ? html`<h1>${text}</h1>` : heading(depth, slug(text), text)).text,
      // The marks of generated parts.
      html: () => "",
      code: ({ text, lang }) => codeBlock(text, lang ?? "").text,
      codespan({ text }) {
        const code = `<code>${escapeHtml(text)}</code>`;
        const target = links.get(text);
        return target === undefined ? code : `<a href="${target}">${code}</a>`;
      },
      table(token) {
        const [head = [], ...rows] = [token.header, ...token.rows].map((row) =>
          row.map(({ tokens }) => new Html(this.parser.parseInline(tokens))),
        );
        return table(`Table: ${head.map(({ text }) => plainText(text)).join(", ")}`, head, rows).text;
      },
    },
  });
  return {
    page: (source: string) => new Html(marked.parse(source, { async: false })),
    /** One paragraph, without the `<p>`. */
    inline: (source: string) => new Html(marked.parseInline(source, { async: false })),
  };
}

/** A heading that links to itself. */
export const heading = (level: number, id: string, title: string): Html =>
  html`<h${level} id="${id}"><a href="#${id}">${title}</a></h${level}>`;

/** A table that scrolls if it is wider than the page. */
export const table = (label: string, head: readonly Html[], rows: readonly Html[][]): Html =>
  html`<div class="table" role="group" aria-label="${label}" tabindex="0"><table><thead><tr>${head.map(
    (cell) => html`<th>${cell}</th>`,
  )}</tr></thead><tbody>${rows.map(
    (row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`,
  )}</tbody></table></div>`;

export const codeBlock = (source: string, language: string): Html =>
  html`<pre data-language="${language}"><code>${highlight(source)}</code></pre>`;

const TOKEN =
  /((?<=^|\s)(?:#|\/\/) .*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)|((?<![\w.$-])(?:async|await|const|def|echo|export|for|from|function|if|import|new|of|return|throw|with)(?![\w-]))/gm;

const KINDS = ["", "comment", "string", "keyword"];

/** Marks comments, strings and keywords, in all languages of the samples. */
const highlight = (source: string): Html[] =>
  source.split(TOKEN).map((part, index) => {
    const kind = KINDS[index % KINDS.length];
    return kind && part ? html`<span class="${kind}">${part}</span>` : html`${part}`;
  });
