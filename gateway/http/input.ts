import type { Request } from "express";
import { z } from "zod";
import { type FieldError, faultsOf, invalid } from "../../server/errors.js";
import type { Operation } from "./operations.js";

/** Values that a request sends, and what is wrong with them beside what the schema finds. */
export interface Input {
  values: Record<string, unknown>;
  faults: FieldError[];
}

/**
 * The query or body of a request, and the headers that the operation declares, by their names in lower case. Throws
 * VALIDATION_ERROR with all faults at once, those of the schema included.
 */
export function readInput(operation: Operation, req: Request, body: Input | undefined) {
  const { values, faults } = readFields(operation, req, body);
  const headers = readHeaders(operation, req.headersDistinct);
  const all = [...faults, ...headers.faults];
  if (all.length > 0) {
    const checked = operation.input.safeParse({ ...values, ...req.params });
    throw invalid([...(checked.success ? [] : faultsOf(checked.error)), ...all]);
  }
  return { values, headers: headers.values };
}

function readFields(operation: Operation, req: Request, body: Input | undefined): Input {
  if (operation.reads === "query") {
    const mark = req.url.indexOf("?");
    return readQuery(mark === -1 ? "" : req.url.slice(mark + 1), operation);
  }
  if (!body) return { values: {}, faults: [] };
  // The path's parameters would hide properties of the same name.
  const values = { ...body.values };
  const faults = [...body.faults];
  for (const name of operation.params) {
    if (Object.hasOwn(values, name)) faults.push({ field: name, issue: "is not a known property" });
    delete values[name];
  }
  return { values, faults };
}

/** The headers an operation declares, each of them sent at most once and as its schema says. */
function readHeaders({ requestHeaders }: Operation, sent: NodeJS.Dict<string[]>) {
  const values: Record<string, string> = {};
  const faults: FieldError[] = [];
  for (const [name, schema] of Object.entries(requestHeaders)) {
    const [value, ...more] = sent[name.toLowerCase()] ?? [];
    if (value === undefined) continue;
    const checked = z.safeParse(schema, value);
    if (more.length > 0) faults.push({ field: name, issue: "must be sent once" });
    else if (!checked.success)
      faults.push({ field: name, issue: checked.error.issues[0]?.message ?? "is not valid" });
    else values[name.toLowerCase()] = value;
  }
  return { values, faults };
}

/** Unknown parameters that one response names: they cost a client three bytes each, and us an entry of `errors[]`. */
const MAX_UNKNOWN_PARAMETERS = 20;

/**
 * The parameters of a query, each at most once and none that the operation does not know. Integers are read as
 * numbers if they are written as such, and stay text otherwise: the schema decides whether a value is valid.
 */
function readQuery(query: string, { fields, params }: Pick<Operation, "fields" | "params">): Input {
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
