import { forEachOpenApiProcedure, getInputOutputParsers } from "trpc-to-openapi";
import { z } from "zod";
import { appRouter } from "../../server/router.js";
import type { RestMeta } from "../../server/trpc.js";

const VERBS = { GET: "get", POST: "post", PUT: "put", PATCH: "patch", DELETE: "delete" } as const;
const UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

type Procedure = Parameters<Parameters<typeof forEachOpenApiProcedure<RestMeta>>[1]>[0];
type InputSource = "query" | "body" | undefined;

/** One REST operation, as its procedure's type, schemas and meta declare it. */
export type Operation = ReturnType<typeof readOperation>;

function readOperation({ path: name, type, procedure, meta }: Procedure) {
  const { openapi, status, location, codes, when = {}, example } = meta;
  const { method, path, summary = name, requestHeaders, responseHeaders } = openapi;
  const { inputParser: input } = getInputOutputParsers(procedure);
  if (!(input instanceof z.ZodObject)) throw new Error(`${name}: the input of an operation must be an object`);
  const params = [...path.matchAll(/\{(\w+)\}/g)].map(([, param]) => String(param));
  const { properties = {}, additionalProperties } = z.toJSONSchema(input, { io: "input" });
  const fields = Object.entries(properties).map(
    ([field, schema]) => [field, typeof schema === "object" ? schema : {}] as const,
  );
  const hasOtherFields = fields.some(([field]) => !params.includes(field));
  const inputSource: InputSource = method === "GET" || method === "DELETE" ? "query" : "body";
  return {
    /** Path of the procedure in the router, such as `forms.create`. Used in logs and metrics. */
    name,
    summary,
    method,
    /** Method of an Express route. */
    verb: VERBS[method],
    path,
    status,
    location,
    codes,
    when,
    example,
    /** Whether it needs a read-write key. */
    isWrite: type === "mutation",
    input,
    /** Names of the path's parameters. */
    params,
    /** The fields of the input, as JSON Schema. */
    fields: new Map(fields),
    /** Where the fields that are not in the path come from. Undefined if all are in the path. */
    inputSource: hasOtherFields ? inputSource : undefined,
    rejectsUnknownFields: additionalProperties === false,
    requestHeaders: requestHeaders?.shape ?? {},
    responseHeaders: responseHeaders?.shape ?? {},
  };
}

/** All operations of the REST API, in the order of the router. */
export const OPERATIONS: Operation[] = [];
// tRPC has no public list of a router's procedures; trpc-to-openapi uses this one too.
forEachOpenApiProcedure<RestMeta>(appRouter._def.procedures, (procedure) => {
  OPERATIONS.push(readOperation(procedure));
});

/** All operations, grouped by path. */
export const ROUTES = [...new Set(OPERATIONS.map(({ path }) => path))].map((template) => {
  const operations = OPERATIONS.filter(({ path }) => path === template);
  const methods = operations.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
  return {
    /** Matches the whole path. A parameter of another form makes it an unknown path. */
    pattern: new RegExp(
      `^${template.replace(/\{(\w+)\}/g, (_, param) => `(?<${param}>${patternOf(operations, param)})`)}$`,
    ),
    operations,
    /** Value of the `Allow` header: includes HEAD if there is GET, and always OPTIONS. */
    allow: [...methods, "OPTIONS"].join(", "),
  };
});

/** What a parameter of a path may be: a UUID, or what the `pattern` of its schema allows. */
function patternOf([operation]: Operation[], param: string): string {
  const { format, pattern = "" } = operation?.fields.get(param) ?? {};
  const own = format === "uuid" ? UUID : /^\^(.+)\$$/.exec(pattern)?.[1];
  if (!own) throw new Error(`${operation?.name}: the path parameter ${param} must be a UUID or have a pattern`);
  return own;
}
