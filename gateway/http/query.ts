import type { FieldError } from "../../server/errors.js";
import type { Operation } from "./operations.js";

/** Unknown parameters that one answer names: they cost a client three bytes each, and us an entry of `errors[]`. */
const MOST_UNKNOWN = 20;

/**
 * The parameters of a query, each at most once and none that the operation does not know. Integers are read as
 * numbers where they are written as such, and stay text otherwise: whether a value will do is for the schema to say.
 */
export function readQuery(query: string, { input, integers }: Pick<Operation, "input" | "integers">) {
  const values: Record<string, unknown> = {};
  const faults: FieldError[] = [];
  const unknown = new Set<string>();
  // URLSearchParams takes one question mark off the front.
  for (const [name, value] of new URLSearchParams(`?${query}`)) {
    if (!Object.hasOwn(input.shape, name)) {
      if (unknown.size < MOST_UNKNOWN) unknown.add(name);
    } else if (Object.hasOwn(values, name)) faults.push({ field: name, issue: "must be sent once" });
    else values[name] = integers.has(name) ? readInteger(value) : value;
  }
  for (const name of unknown) faults.push({ field: name, issue: "is not a known parameter" });
  return { values, faults };
}

function readInteger(text: string): number | string {
  if (!/^-?\d+$/.test(text)) return text;
  return Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}
