import { z } from "zod";
import { appRouter } from "../../server/router.js";
import type { RestMeta } from "../../server/trpc.js";
import { forEachOpenApiProcedure, getInputOutputParsers } from "./library.js";

const VERBS = { GET: "get", POST: "post", PUT: "put", PATCH: "patch", DELETE: "delete" } as const;

type Method = keyof typeof VERBS;
type JsonSchema = z.core.JSONSchema.JSONSchema;

/** One REST operation, as its procedure's type, schemas and meta declare it. */
export interface Operation extends Pick<RestMeta, "status" | "codes"> {
  summary: string;
  /** Path of the procedure in the router, such as `forms.create`. Used in logs and metrics. */
  name: string;
  method: Method;
  /** Method of an Express route. */
  verb: (typeof VERBS)[Method];
  path: string;
  location: RestMeta["location"];
  example: RestMeta["example"];
  /** Whether it needs a read-write key. */
  isWrite: boolean;
  input: z.ZodObject;
  /** Names of the path's parameters. */
  params: readonly string[];
  /** The fields of the input, as JSON Schema. */
  fields: ReadonlyMap<string, JsonSchema>;
  /** Where the fields that are not in the path come from. Undefined if all are in the path. */
  inputSource: "query" | "body" | undefined;
  rejectsUnknownFields: boolean;
  requestHeaders: Readonly<Record<string, z.core.$ZodType>>;
  responseHeaders: Readonly<Record<string, z.core.$ZodType>>;
}

/** A path with its operations. */
interface Route {
  /** Matches the whole path. A malformed id makes it an unknown path. */
  pattern: RegExp;
  operations: Operation[];
  /** Value of the `Allow` header: includes HEAD if there is GET, and always OPTIONS. */
  allow: string;
}

const UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

const patternOf = (template: string) =>
  new RegExp(`^${template.replace(/\{(\w+)\}/g, (_, name) => `(?<${name}>${UUID})`)}$`);

function readOperations(): Operation[] {
  const operations: Operation[] = [];
  // tRPC has no public list of a router's procedures; trpc-to-openapi uses this one too.
  forEachOpenApiProcedure<RestMeta>(appRouter._def.procedures, ({ path: name, type, procedure, meta }) => {
    const { openapi, status, location, codes, example } = meta;
    const { method, path, summary = name, requestHeaders, responseHeaders } = openapi;
    const { inputParser: input } = getInputOutputParsers(procedure);
    if (!(input instanceof z.ZodObject)) throw new Error(`${name}: the input of an operation must be an object`);
    const params = [...path.matchAll(/\{(\w+)\}/g)].map(([, param]) => String(param));
    const { properties = {}, additionalProperties } = z.toJSONSchema(input, { io: "input" });
    const fields = Object.entries(properties).map(
      ([field, schema]) => [field, typeof schema === "object" ? schema : {}] as const,
    );
    const isInPath = ([field]: readonly [string, unknown]) => params.includes(field);
    operations.push({
      name,
      summary,
      method,
      verb: VERBS[method],
      path,
      status,
      location,
      codes,
      example,
      isWrite: type === "mutation",
      input,
      params,
      fields: new Map(fields),
      inputSource: fields.every(isInPath) ? undefined : method === "GET" || method === "DELETE" ? "query" : "body",
      rejectsUnknownFields: additionalProperties === false,
      requestHeaders: requestHeaders?.shape ?? {},
      responseHeaders: responseHeaders?.shape ?? {},
    });
  });
  return operations;
}

function groupByPath(operations: readonly Operation[]): Route[] {
  return [...new Set(operations.map(({ path }) => path))].map((template) => {
    const atPath = operations.filter(({ path }) => path === template);
    const methods = atPath.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
    const allow = [...methods, "OPTIONS"].join(", ");
    return { pattern: patternOf(template), operations: atPath, allow };
  });
}

/** All operations of the REST API, in the order of the router. */
export const OPERATIONS: readonly Operation[] = readOperations();

/** All operations, grouped by path. */
export const ROUTES: readonly Route[] = groupByPath(OPERATIONS);
