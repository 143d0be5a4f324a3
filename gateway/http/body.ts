import contentType from "content-type";
import type { Request, RequestHandler, Response } from "express";
import type { Settings } from "../../server/config.js";
import { type FieldError, invalid, ServiceError } from "../../server/errors.js";
import type { Input } from "./input.js";

/**
 * Reads a JSON object, strictly and in this order: content type and encoding (415), size (413), JSON (400), number of
 * fields and depth (413). `express.json()` answers a body that is too large only when all of it has arrived, and takes
 * invalid UTF-8.
 */
export function readBody(settings: Settings): RequestHandler {
  return async (req, res, next) => {
    const { deadline } = res.locals;
    demandJson(req.headersDistinct);
    // The pace of a body is the client's own.
    deadline.pause();
    const bytes = await receive(req, res, settings.BODY_MAX_BYTES);
    deadline.start();
    res.locals.body = measure(parse(bytes), settings);
    next();
  };
}

const unsupported = (field: string, issue: string) => invalid([{ field, issue }], { status: 415 });

function demandJson(headers: NodeJS.Dict<string[]>): void {
  const types = headers["content-type"] ?? [];
  if (types.length !== 1 || !isJson(types[0] ?? "")) {
    throw unsupported("Content-Type", "must be application/json, in UTF-8");
  }
  const encodings = headers["content-encoding"] ?? [];
  if (encodings.some((encoding) => encoding.toLowerCase() !== "identity")) {
    throw unsupported("Content-Encoding", "compressed bodies are not accepted");
  }
  // Node decodes `chunked` alone, and ignores the rest.
  const transfers = headers["transfer-encoding"] ?? [];
  if (transfers.some((transfer) => transfer.toLowerCase() !== "chunked")) {
    throw unsupported("Transfer-Encoding", "must be chunked, where there is one");
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

/** The bytes of a body. Too many are refused as soon as that is known, and the rest is discarded as it arrives. */
function receive(req: Request, res: Response, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const take = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit) refuse();
      else chunks.push(chunk);
    };
    const refuse = () => {
      req.off("data", take).resume();
      reject(new ServiceError("PAYLOAD_TOO_LARGE"));
    };
    if (Number(req.headers["content-length"]) > limit) return refuse();
    if (req.headers.expect && req.httpVersion === "1.1") res.writeContinue();
    req.on("data", take);
    const cut = () => reject(badBody("did not arrive whole"));
    req.once("end", () => {
      req.off("close", cut);
      resolve(Buffer.concat(chunks));
    });
    req.once("close", cut);
  });
}

function parse(bytes: Buffer): Record<string, unknown> {
  if (bytes.length === 0) throw badBody("must be a JSON object, but is empty");
  let value: unknown;
  try {
    // Fatal, because a replacement character would stand in for what was sent. A byte order mark is skipped.
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw badBody("is not JSON in UTF-8");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw badBody("must be a JSON object");
  return value as Record<string, unknown>;
}

const FORBIDDEN_NAMES = new Set(["__proto__", "constructor", "prototype"]);

/**
 * Counts properties and array elements at all depths and refuses too many, or too deep (PAYLOAD_TOO_LARGE). Removes
 * the properties that could reach an object's prototype, and reports them as faults.
 */
function measure(values: Record<string, unknown>, { BODY_MAX_DEPTH, BODY_MAX_FIELDS }: Settings): Input {
  const faults: FieldError[] = [];
  const open: { value: object; path: string; depth: number }[] = [{ value: values, path: "", depth: 1 }];
  let fields = 0;
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.depth > BODY_MAX_DEPTH) {
      throw new ServiceError("PAYLOAD_TOO_LARGE", { message: "The request body is nested too deeply." });
    }
    for (const [name, value] of Object.entries(next.value)) {
      fields += 1;
      if (fields > BODY_MAX_FIELDS) {
        throw new ServiceError("PAYLOAD_TOO_LARGE", { message: "The request body has too many fields." });
      }
      const path = next.path === "" ? name : `${next.path}.${name}`;
      if (typeof value === "object" && value !== null) open.push({ value, path, depth: next.depth + 1 });
      if (!Array.isArray(next.value) && FORBIDDEN_NAMES.has(name)) {
        Reflect.deleteProperty(next.value, name);
        faults.push({ field: path, issue: "is not an allowed property name" });
      }
    }
  }
  return { values, faults };
}
