import type { Described } from "./described.js";
import type { Page } from "./layout.js";

/** What the search looks through: every heading of every page with the text below it (browser/search.js). */
export const searchIndex = (pages: readonly Page[]) =>
  pages.flatMap(({ path, title: page, sections }) =>
    sections.map(({ id, title, text }) => ({ url: id ? `${path}#${id}` : path, page, title, text })),
  );

/** `/llms.txt` (https://llmstxt.org): the documentation for language models. */
export const llmsText = ({ info }: Described, introduction: string, pages: readonly Page[]): string =>
  `# ${info.title}

> ${info.summary}

${introduction}

## Guides

${pages
  .filter(({ markdown }) => markdown !== undefined)
  .map(({ path, title, summary }) => `- [${title}](${path}.md): ${summary}`)
  .join("\n")}

## Reference

- [OpenAPI document](/openapi.json): every operation with its parameters, responses, errors and code samples.
`;
