import type { Request } from "express";
import { z } from "zod";
import { type FieldError, fieldErrorsOf, invalid } from "../../server/errors.js";
import type { Operation } from "../operations/operations.js";

/** The values of a request, and the errors that its schema does not check for. */
export interface Input {
  values: Record<string, unknown>;
  fieldErrors: FieldError[];
}

/**
 * The query or body of a request, and the headers that the operation declares, by lower-case name. Throws one
 * VALIDATION_ERROR with all errors, including those that the schema finds.
 */
export function readInput(operation: Operation, req: Request, body: Input | undefined) {
  const { values, fieldErrors } = readFields(operation, req, body);
  const headers = readHeaders(operation, req.headersDistinct);
  const all = [...fieldErrors, ...headers.fieldErrors];
  if (all.length > 0) {
    const checked = operation.input.safeParse({ ...values, ...req.params });
    throw invalid([...(checked.success ? [] : fieldErrorsOf(checked.error)), ...all]);
  }
  return { values, headers: headers.values };
}

function readFields(operation: Operation, req: Request, body: Input | undefined): Input {
  if (operation.inputSource === "query") {
    const mark = req.url.indexOf("?");
    return readQuery(mark === -1 ? "" : req.url.slice(mark + 1), operation);
  }
  if (!body) return { values: {}, fieldErrors: [] };
  // Otherwise path parameters would silently override properties of the same name.
  const values = { ...body.values };
  const fieldErrors = [...body.fieldErrors];
  for (const name of operation.params) {
    if (Object.hasOwn(values, name)) fieldErrors.push({ field: name, issue: "is not a known property" });
    delete values[name];
  }
  return { values, fieldErrors };
}

/** The headers that an operation declares. Each may be sent once, and must match its schema. */
function readHeaders({ requestHeaders }: Operation, sent: NodeJS.Dict<string[]>) {
  const values: Record<string, string> = {};
  const fieldErrors: FieldError[] = [];
  for (const [name, schema] of Object.entries(requestHeaders)) {
    const [value, ...more] = sent[name.toLowerCase()] ?? [];
    if (value === undefined) continue;
    const checked = z.safeParse(schema, value);
    if (more.length > 0) fieldErrors.push({ field: name, issue: "must be sent once" });
    else if (!checked.success)
      fieldErrors.push({ field: name, issue: checked.error.issues[0]?.message ?? "is not valid" });
    else values[name.toLowerCase()] = value;
  }
  return { values, fieldErrors };
}

/** Limits the size of the response: an unknown parameter of 3 bytes adds a whole entry to `errors`. */
const MAX_UNKNOWN_PARAMETERS = 20;

/**
 * The parameters of a query. Unknown and repeated ones are errors. A number that is not written as an integer stays
 * text, so that the schema rejects it.
 */
function readQuery(query: string, { fields, params }: Pick<Operation, "fields" | "params">): Input {
  const values: Record<string, unknown> = {};
  const fieldErrors: FieldError[] = [];
  const unknown = new Set<string>();
  // URLSearchParams removes one leading question mark.
  for (const [name, value] of new URLSearchParams(`?${query}`)) {
    const field = params.includes(name) ? undefined : fields.get(name);
    if (!field) {
      if (unknown.size < MAX_UNKNOWN_PARAMETERS) unknown.add(name);
    } else if (Object.hasOwn(values, name)) fieldErrors.push({ field: name, issue: "must be sent once" });
    else values[name] = field.type === "integer" || field.type === "number" ? readInteger(value) : value;
  }
  for (const name of unknown) fieldErrors.push({ field: name, issue: "is not a known parameter" });
  return { values, fieldErrors };
}

function readInteger(text: string): number | string {
  if (!/^-?\d+$/.test(text)) return text;
  return Math.min(Math.max(Number(text), Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
}
