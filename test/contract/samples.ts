import { readdirSync, readFileSync } from "node:fs";

/** A code sample of the README, a guide or the OpenAPI document. */
export interface Sample {
  name: string;
  language: "bash" | "csharp" | "java" | "js" | "php" | "python" | "sh" | "ts";
  source: string;
}

/** The ids that the samples show. Tests replace them with real ids. */
export const SHOWN_FORM = "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11";
export const SHOWN_LISTING = "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa";

const LANGUAGES = ["bash", "csharp", "java", "js", "php", "python", "sh", "ts"];
const isSample = (language: string): language is Sample["language"] => LANGUAGES.includes(language);

const read = (path: string) => readFileSync(new URL(`../../gateway/${path}`, import.meta.url), "utf8");

/** Has receivers instead of programs that end: webhook-guide.release.ts. */
export const WEBHOOK_GUIDE = "gateway/docs/guides/8-webhooks.md";

/** Every fenced block of the other guides in a language that the tests can run. */
export function guideSamples(): Sample[] {
  const folder = new URL("../../gateway/docs/guides/", import.meta.url);
  const guides = readdirSync(folder).filter((guide) => !WEBHOOK_GUIDE.endsWith(guide));
  return guides.flatMap((guide) =>
    samplesIn(read(`docs/guides/${guide}`)).map(({ name, ...sample }) => ({ ...sample, name: `${guide} ${name}` })),
  );
}

/** Named by their language and number. */
function samplesIn(markdown: string): Sample[] {
  const counts: Record<string, number> = {};
  return [...markdown.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, language = "", source = ""]) => {
    if (!isSample(language)) return [];
    counts[language] = (counts[language] ?? 0) + 1;
    return [{ name: `${language} ${counts[language]}`, language, source }];
  });
}

/** Those of the guide about webhooks. */
export const webhookGuideSamples = (): Sample[] => samplesByHeading(`../${WEBHOOK_GUIDE}`);

/** The programs of the guide with recipes. */
export const recipeSamples = (): Sample[] => samplesByHeading("docs/guides/7-recipes.md");

/** The bookings that the recipe `Sync bookings` reads. */
export const recipeBookings = (): string => /^```json\n(.*?)^```$/ms.exec(read("docs/guides/7-recipes.md"))?.[1] ?? "";

/** Named by their heading, language and number. */
const samplesByHeading = (path: string): Sample[] =>
  read(path)
    .split(/^##+ /m)
    .flatMap((section) => {
      const [heading = ""] = section.split("\n");
      return samplesIn(section).map(({ name, ...sample }) => ({ ...sample, name: `${heading} ${name}` }));
    });

/** The first request of the README. */
export function readmeSample(): Sample {
  const readme = read("../README.md");
  const [, source = ""] = /^```sh\n(curl .*?)^```$/ms.exec(readme) ?? [];
  return { name: "README.md sh 1", language: "sh", source };
}

interface Operation {
  operationId: string;
  "x-codeSamples": { lang: string; source: string }[];
}

/** The `x-codeSamples` of every operation. */
export function documentSamples(): Sample[] {
  const { paths } = JSON.parse(read("openapi/openapi.json")) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  return operations.flatMap(({ operationId, "x-codeSamples": samples }) =>
    samples.map(({ lang, source }) => {
      const language = { typescript: "ts", javascript: "js" }[lang] ?? lang;
      if (!isSample(language)) throw new Error(`${operationId}: no test runs ${lang}`);
      return { name: `${operationId} ${language}`, language, source };
    }),
  );
}
