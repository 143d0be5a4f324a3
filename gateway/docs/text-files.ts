import type { Page } from "./layout.js";
import type { OpenApiDocument } from "./openapi-types.js";

/** The search index: every heading of every page, with the text below it (browser/search.js). */
export const searchIndex = (pages: readonly Page[]) =>
  pages.flatMap(({ path, title: page, sections }) =>
    sections.map(({ id, title, text }) => ({ url: id ? `${path}#${id}` : path, page, title, text })),
  );

/** `/llms.txt` (https://llmstxt.org): the documentation for language models. */
export const llmsText = ({ info }: OpenApiDocument, introduction: string, pages: readonly Page[]): string =>
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
