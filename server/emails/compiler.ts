import { Liquid, type Template } from "liquidjs";
import { type Settings, SettingsError } from "../config.js";
import type { InvitationFacts } from "./facts.js";
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

/** Returns a function that compiles and checks the template at a path. It throws SettingsError, which names the line. */
export function openCompiler(settings: Settings): (source: string, path: string, part: Part) => Render {
  const options = { strictFilters: true, ownPropertyOnly: true, templates: {} };
  const plain = new Liquid(options);
  const escaping = new Liquid({ ...options, outputEscape: "escape" });
  const variables = (facts: InvitationFacts) => variablesOf(facts, settings, { language: "en", locale: "en" });
  const examples = { "": variables(exampleFacts()), [WHEN_SPARSE]: variables(sparseFacts()) };
  return (source, path, part) => {
    const engine = part === "html" ? escaping : plain;
    try {
      const template = engine.parse(source, path);
      checkVariables(engine, template, path);
      const render: Render = (variables) => FINISH[part](engine.renderSync(template, variables));
      for (const [when, variables] of Object.entries(examples)) {
        const { isIn, problem } = NEEDED[part];
        if (!isIn(render(variables), engine.parseAndRenderSync("{{ link }}", variables)))
          throw new Error(problem + when);
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
