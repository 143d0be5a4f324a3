import { Liquid, type Template } from "liquidjs";
import { type Settings, SettingsError } from "../config.js";
import type { Part } from "./layout.js";
import { exampleFacts, sparseFacts, type Variables, variablesOf } from "./variables.js";

/** Renders a template. */
export type Render = (variables: Variables) => string;

/** A subject has one line, and keeps its no-break spaces. In a text, an absent line leaves no gap. */
const FINISH: Record<Part, (rendered: string) => string> = {
  subject: (rendered) => rendered.trim().replace(/\s*[\r\n]\s*/g, " "),
  text: (rendered) => `${rendered.replace(/\n(?:[^\S\n]*\n){2,}/g, "\n\n").trim()}\n`,
  html: (rendered) => rendered,
};

const WHEN_SPARSE = ", if the form has no stay and the listing no owner";

/** What must be in a rendered part. */
const NEEDED: Record<Part, { isIn(rendered: string, link: string): boolean; problem: string }> = {
  subject: { isIn: (rendered) => rendered !== "", problem: "the subject is empty" },
  text: { isIn: (rendered, link) => rendered.includes(link), problem: "{{ link }} is missing" },
  html: {
    isIn: (rendered, link) => rendered.includes(`href="${link}"`),
    problem: 'there is no link to the form, such as <a href="{{ link }}">',
  },
};

// Guests' and integrators' values may be large, such as a number of guests of 2 billion in a loop.
const OPTIONS = { strictFilters: true, ownPropertyOnly: true, memoryLimit: 1e6 };
/** They read other templates, which are not checked. */
const WITHHELD_TAGS = ["include", "render", "layout", "block"];

function openEngine(options: { outputEscape?: "escape" } = {}): Liquid {
  const engine = new Liquid({ ...OPTIONS, ...options });
  for (const tag of WITHHELD_TAGS) delete engine.tags[tag];
  return engine;
}

type Compile = (source: string, origin: { path: string; part: Part; language: string }) => Render;

/** Returns a function that compiles and checks a template. It throws SettingsError, which names the line. */
export function openCompiler(settings: Settings): Compile {
  const [plain, escaping] = [openEngine(), openEngine({ outputEscape: "escape" })];
  const sparse = sparseFacts();
  const examples = {
    "": exampleFacts(),
    [WHEN_SPARSE]: sparse,
    " for some titles": { ...sparse, listing: { ...sparse.listing, title: `5% <off> & "more" '${"x".repeat(180)}` } },
  };
  return (source, { path, part, language }) => {
    const engine = part === "html" ? escaping : plain;
    try {
      const template = engine.parse(source, path);
      checkVariables(engine, template, path);
      const render: Render = (variables) => FINISH[part](engine.renderSync(template, variables));
      for (const [when, facts] of Object.entries(examples)) {
        const { isIn, problem } = NEEDED[part];
        const variables = variablesOf(facts, settings, { language, locale: language });
        const link = engine.parseAndRenderSync("{{ link }}", variables);
        if (!isIn(render(variables), link)) throw new Error(problem + when);
      }
      return render;
    } catch (error) {
      throw error instanceof SettingsError ? error : new SettingsError(describe(error, path));
    }
  };
}

function checkVariables(engine: Liquid, template: Template[], path: string): void {
  const { globals } = engine.analyzeSync(template, { partials: false });
  for (const variable of Object.values(globals).flat()) {
    const name = variable.segments.join(".");
    if (NAMES.includes(name)) continue;
    const { row, col } = variable.location;
    throw new SettingsError(`${path}:${row}:${col}: there is no variable ${name}. There are ${NAMES.join(", ")}.`);
  }
}

const namesIn = (value: object, prefix = ""): string[] =>
  Object.entries(value).flatMap(([name, part]) =>
    typeof part === "object" && part !== null ? namesIn(part, `${prefix}${name}.`) : [prefix + name],
  );

/** Every variable, such as `listing.title`. */
const NAMES = namesIn(variablesOf(exampleFacts(), {}, { language: "en", locale: "en" }));

/** liquidjs ends its messages with the place. */
function describe(error: unknown, path: string): string {
  const message = error instanceof Error ? error.message : String(error);
  const [, problem, line, column] = /^(.*?)(?:, file:.*)?, line:(\d+), col:(\d+)$/s.exec(message) ?? [];
  return problem ? `${path}:${line}:${column}: ${problem}` : `${path}: ${message}`;
}
