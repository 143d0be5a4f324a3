import contentType from "content-type";
import type { Request, RequestHandler, Response } from "express";
import { z } from "zod";
import type { Settings } from "../../server/config.js";
import { type FieldError, fieldErrorsOf, invalid, ServiceError } from "../../server/errors.js";
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

/**
 * Reads a JSON object, checking in this order: content type and encoding (415), size (413), JSON (400), number of
 * fields and depth (413). Not `express.json()`, because it accepts invalid UTF-8, and rejects a body that is too large
 * only after all of it has arrived.
 */
export function readBody(settings: Settings): RequestHandler {
  return async (req, res, next) => {
    const { deadline } = res.locals;
    requireJson(req.headersDistinct);
    // The time that the client takes to send the body does not count.
    deadline.pause();
    const bytes = await receiveBody(req, res, settings.BODY_MAX_BYTES);
    deadline.start();
    res.locals.body = checkFields(parse(bytes), settings);
    next();
  };
}

const unsupported = (field: string, issue: string) => invalid([{ field, issue }], { status: 415 });

/** Rejects with 415 unless the body is JSON in UTF-8, without compression. */
export function requireJson(headers: NodeJS.Dict<string[]>): void {
  const types = headers["content-type"] ?? [];
  if (types.length !== 1 || !isJson(types[0] ?? "")) {
    throw unsupported("Content-Type", "must be application/json, in UTF-8");
  }
  const encodings = headers["content-encoding"] ?? [];
  if (encodings.some((encoding) => encoding.toLowerCase() !== "identity")) {
    throw unsupported("Content-Encoding", "must be identity, if present: compressed bodies are not accepted");
  }
  // Node decodes only `chunked`, and ignores any other value.
  const transfers = headers["transfer-encoding"] ?? [];
  if (transfers.some((transfer) => transfer.toLowerCase() !== "chunked")) {
    throw unsupported("Transfer-Encoding", "must be chunked, if present");
  }
}

function isJson(header: string): boolean {
  try {
    const { type, parameters } = contentType.parse(header);
    return type === "application/json" && /^utf-?8$/i.test(parameters.charset ?? "utf-8");
  } catch {
    return false;
  }
}

const badBody = (issue: string) => invalid([{ field: "body", issue }]);

/** The bytes of a body. Rejects as soon as it is known to be too large, and discards the rest as it arrives. */
function receiveBody(req: Request, res: Response, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit) rejectTooLarge();
      else chunks.push(chunk);
    };
    const rejectTooLarge = () => {
      req.off("data", onData).resume();
      reject(new ServiceError("PAYLOAD_TOO_LARGE"));
    };
    if (Number(req.headers["content-length"]) > limit) return rejectTooLarge();
    if (req.headers.expect && req.httpVersion === "1.1") res.writeContinue();
    req.on("data", onData);
    const onClose = () => reject(badBody("is incomplete"));
    req.once("end", () => {
      req.off("close", onClose);
      resolve(Buffer.concat(chunks));
    });
    req.once("close", onClose);
  });
}

function parse(bytes: Buffer): Record<string, unknown> {
  if (bytes.length === 0) throw badBody("must be a JSON object, but is empty");
  let value: unknown;
  try {
    // Without `fatal`, invalid bytes become replacement characters. A byte order mark is skipped.
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw badBody("is not valid JSON in UTF-8");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw badBody("must be a JSON object");
  return value as Record<string, unknown>;
}

const FORBIDDEN_NAMES = new Set(["__proto__", "constructor", "prototype"]);

/**
 * Limits the number of properties and array elements at all depths, and the depth (PAYLOAD_TOO_LARGE). Removes the
 * properties that could change an object's prototype, and reports them as field errors.
 */
function checkFields(values: Record<string, unknown>, { BODY_MAX_DEPTH, BODY_MAX_FIELDS }: Settings): Input {
  const fieldErrors: FieldError[] = [];
  const stack: { value: object; path: string; depth: number }[] = [{ value: values, path: "", depth: 1 }];
  let fields = 0;
  for (let next = stack.pop(); next; next = stack.pop()) {
    if (next.depth > BODY_MAX_DEPTH) {
      throw new ServiceError("PAYLOAD_TOO_LARGE", { message: "The request body is nested too deeply." });
    }
    for (const [name, value] of Object.entries(next.value)) {
      fields += 1;
      if (fields > BODY_MAX_FIELDS) {
        throw new ServiceError("PAYLOAD_TOO_LARGE", { message: "The request body has too many fields." });
      }
      const path = next.path === "" ? name : `${next.path}.${name}`;
      if (typeof value === "object" && value !== null) stack.push({ value, path, depth: next.depth + 1 });
      if (!Array.isArray(next.value) && FORBIDDEN_NAMES.has(name)) {
        Reflect.deleteProperty(next.value, name);
        fieldErrors.push({ field: path, issue: "is not an allowed property name" });
      }
    }
  }
  return { values, fieldErrors };
}
