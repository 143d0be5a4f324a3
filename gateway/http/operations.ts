import type { AnyTRPCProcedure } from "@trpc/server";
import { z } from "zod";
import type { ErrorCode } from "../../server/errors.js";
import { appRouter } from "../../server/router.js";
import type { Meta } from "../../server/trpc.js";

/** One REST operation, read off the procedure that implements it. */
export interface Operation {
  /** Path of the procedure in the router, such as `forms.create`; the name in logs and metrics. */
  name: string;
  procedure: AnyTRPCProcedure;
  method: string;
  writes: boolean;
  /** Errors it can answer with, beside those that every operation can. */
  codes: readonly ErrorCode[];
  input: z.ZodObject;
  headers: z.ZodObject | undefined;
  /** Names of the path's parameters. */
  params: string[];
  /** Whether the query carries input: only where the interface gives the operation query parameters. */
  readsQuery: boolean;
  /** Query parameters that are integers. */
  integers: ReadonlySet<string>;
}

export interface Route {
  template: string;
  path: RegExp;
  operations: Map<string, Operation>;
}

/** A known path with the values of its parameters. */
export interface Match {
  operations: ReadonlyMap<string, Operation>;
  params: Record<string, string>;
}

const UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

// A malformed id makes an unknown path, so that it is not found whatever else the request carries.
const pathPattern = (template: string) =>
  new RegExp(`^${template.replace(/\{(\w+)\}/g, (_, name) => `(?<${name}>${UUID})`)}$`);

interface ProcedureDef {
  type: string;
  meta?: Meta;
  inputs: unknown[];
}

function describe(
  name: string,
  procedure: AnyTRPCProcedure,
  openapi: NonNullable<Meta["openapi"]>,
): Operation {
  const def = procedure._def as unknown as ProcedureDef;
  const input = def.inputs[0];
  if (!(input instanceof z.ZodObject)) throw new Error(`${name}: the input of an operation is an object`);
  const params = [...openapi.path.matchAll(/\{(\w+)\}/g)].map(([, param]) => String(param));
  const fields = Object.keys(input.shape).filter((field) => !params.includes(field));
  const json = z.toJSONSchema(input, { io: "input" }).properties ?? {};
  const isInteger = (field: string) => {
    const schema = json[field];
    return typeof schema === "object" && (schema.type === "integer" || schema.type === "number");
  };
  return {
    name,
    procedure,
    method: openapi.method,
    writes: def.type === "mutation",
    codes: def.meta?.codes ?? [],
    input,
    headers: openapi.requestHeaders as z.ZodObject | undefined,
    params,
    readsQuery: openapi.method === "GET" && fields.length > 0,
    integers: new Set(fields.filter(isInteger)),
  };
}

function readRoutes(): Route[] {
  const routes = new Map<string, Route>();
  // Flat at run time, by path ("forms.create"); its type is the tree that clients infer from.
  const procedures = appRouter._def.procedures as unknown as Record<string, AnyTRPCProcedure>;
  for (const [name, procedure] of Object.entries(procedures)) {
    const { openapi } = (procedure._def.meta ?? {}) as Meta;
    if (!openapi) continue;
    const route = routes.get(openapi.path) ?? {
      template: openapi.path,
      path: pathPattern(openapi.path),
      operations: new Map(),
    };
    routes.set(openapi.path, route);
    route.operations.set(openapi.method, describe(name, procedure, openapi));
  }
  return [...routes.values()];
}

/** All paths of the REST interface with their operations. */
export const ROUTES: readonly Route[] = readRoutes();

/** The operations at a path, which must match to the letter; undefined where there are none. */
export function matchPath(path: string): Match | undefined {
  for (const route of ROUTES) {
    const match = route.path.exec(path);
    if (match) return { operations: route.operations, params: { ...match.groups } };
  }
  return undefined;
}

/** The value of an Allow header: HEAD wherever there is GET, and OPTIONS everywhere. */
export function allow(match: Match): string {
  const methods = [...match.operations.keys()];
  return [...methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])), "OPTIONS"].join(
    ", ",
  );
}
