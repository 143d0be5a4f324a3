import { type Html, html } from "./html.js";

const TOKEN =
  /(?<comment>(?<=^|\s)(?:#|\/\/) .*)|(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)|(?<keyword>(?<![\w.$-])(?:async|await|const|def|echo|export|for|from|function|if|import|new|of|return|throw|with)(?![\w-]))/gm;

/** Marks comments, strings and keywords, in all languages of the samples. */
export function highlight(source: string): Html {
  const parts: Html[] = [];
  let end = 0;
  for (const match of source.matchAll(TOKEN)) {
    const [kind = ""] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? [];
    parts.push(html`${source.slice(end, match.index)}<span class="${kind}">${match[0]}</span>`);
    end = match.index + match[0].length;
  }
  return html`${parts}${source.slice(end)}`;
}
