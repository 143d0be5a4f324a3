import type { FieldError } from "../../server/errors.js";
import type { Input } from "./input.js";
import type { Operation } from "./operations.js";

/** Unknown parameters that one response names: they cost a client three bytes each, and us an entry of `errors[]`. */
const MAX_UNKNOWN_PARAMETERS = 20;

/**
 * The parameters of a query, each at most once and none that the operation does not know. Integers are read as
 * numbers if they are written as such, and stay text otherwise: the schema decides whether a value is valid.
 */
export function readQuery(query: string, { fields, params }: Pick<Operation, "fields" | "params">): Input {
  const values: Record<string, unknown> = {};
  const faults: FieldError[] = [];
  const unknown = new Set<string>();
  // URLSearchParams takes one question mark off the front.
  for (const [name, value] of new URLSearchParams(`?${query}`)) {
    const field = params.includes(name) ? undefined : fields.get(name);
    if (!field) {
      if (unknown.size < MAX_UNKNOWN_PARAMETERS) unknown.add(name);
    } else if (Object.hasOwn(values, name)) faults.push({ field: name, issue: "must be sent once" });
    else values[name] = field.type === "integer" || field.type === "number" ? readInteger(value) : value;
  }
  for (const name of unknown) faults.push({ field: name, issue: "is not a known parameter" });
  return { values, faults };
}

function readInteger(text: string): number | string {
  if (!/^-?\d+$/.test(text)) return text;
  return Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}
