import { z } from "zod";
import { appRouter } from "../../server/router.js";

/** Texts with a hidden character, by what it is. */
export const HIDDEN: Record<string, string> = {
  NUL: "\u0000",
  "an escape sequence": "\u001b[2J",
  "a line break": "\n",
  DEL: "\u007f",
  CSI: "\u009b",
  "a soft hyphen": "\u00ad",
  "an Arabic letter mark": "\u061c",
  "a Hangul filler": "\u3164",
  "a zero-width space": "\u200b",
  "a left-to-right mark": "\u200e",
  "a line separator": "\u2028",
  "a paragraph separator": "\u2029",
  "a right-to-left override": "\u202e",
  "a word joiner": "\u2060",
  "an isolate": "\u2066",
  "a byte order mark": "\ufeff",
  "a noncharacter": "\uffff",
  "a tag that is in no flag": "\u{e0041}",
  "a tag in a black flag that has no end": "\u{e0041}🏴\u{e0067}\u{e0062}",
  "a high surrogate": "\ud800",
  "a low surrogate": "\udc00",
};

/** A valid input of a procedure, and where it has a text. */
export interface TextInput {
  procedure: string;
  input: Record<string, unknown>;
  path: string[];
}

/** Returns a valid text for a property of a procedure. */
type TextFor = (procedure: string, property: string) => string;

/** Every text of the inputs of all procedures, in each kind of row. Throws if there is no valid sample of a text. */
export const listTextInputs = (textFor: TextFor): TextInput[] =>
  // tRPC has no public list of them.
  Object.entries<unknown>(appRouter._def.procedures).flatMap(([procedure, definition]) => {
    const [schema] = (definition as { _def: { inputs: z.ZodType[] } })._def.inputs;
    if (!schema) return [];
    const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
    const kinds = Math.max(1, ...Array.from(JSON.stringify(json).matchAll(/"const"/g), (_, index) => index + 1));
    const inputs = Array.from({ length: kinds }, (_, kind) => {
      const sample = sampleOf(json, { kind, property: "", textFor: (property) => textFor(procedure, property) });
      return sample as Record<string, unknown>;
    });
    return inputs.flatMap((full) =>
      pathsIn(full).map((path) => {
        const candidates = narrowed(full, json.required ?? [], path[0] ?? "");
        const input = candidates.find((candidate) => schema.safeParse(candidate).success);
        if (!input) throw new Error(`${procedure} rejects the sample of ${path.join(".")}: ${JSON.stringify(full)}`);
        return { procedure, input, path };
      }),
    );
  });

interface SampleOptions {
  /** Which of several kinds of rows. */
  kind: number;
  property: string;
  textFor(property: string): string;
}

function sampleOf(schema: z.core.JSONSchema.BaseSchema, options: SampleOptions): unknown {
  const kinds = (schema.anyOf ?? schema.oneOf)?.filter(({ type }) => type !== "null");
  if (kinds) return sampleOf(kinds[options.kind % kinds.length] ?? {}, options);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const type = [schema.type].flat()[0];
  if (type === "array") return [sampleOf(schema.items as z.core.JSONSchema.BaseSchema, options)];
  if (type === "integer") return Math.max(schema.minimum ?? 1, 1);
  if (type === "boolean") return true;
  if (type !== "object") return options.textFor(options.property);
  const properties = Object.entries(schema.properties ?? {}) as [string, z.core.JSONSchema.BaseSchema][];
  return Object.fromEntries(properties.map(([property, each]) => [property, sampleOf(each, { ...options, property })]));
}

/** The paths of all texts. */
const pathsIn = (value: unknown): string[][] => {
  if (typeof value === "string") return [[]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, part]) => pathsIn(part).map((path) => [name, ...path]));
};

/** An input, then without its optional properties but this one, then with one other: some exclude each other. */
function narrowed(full: Record<string, unknown>, required: string[], property: string) {
  const only = (names: string[]) => Object.fromEntries(Object.entries(full).filter(([name]) => names.includes(name)));
  const others = Object.keys(full).map((other) => only([...required, property, other]));
  return [full, only([...required, property]), ...others];
}

/** The input with another text at this path. */
export const withText = ({ input, path }: TextInput, change: (text: string) => string): unknown => {
  const replaced = structuredClone(input);
  let parent = replaced;
  for (const name of path.slice(0, -1)) parent = parent[name] as Record<string, unknown>;
  const last = path.at(-1) ?? "";
  parent[last] = change(String(parent[last]));
  return replaced;
};
