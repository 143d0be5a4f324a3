import type { Request, Response } from "express";
import { ROUTES } from "../operations/operations.js";

/** The path and operation that are logged. The request target is not, because it may contain secrets. */
export interface LoggedRoute {
  /** The template of the path, such as `/v1/forms/{id}`; "unknown" if none matches. */
  route: string;
  /** Only if `route` is "unknown": the path, with segments that could be an id, a key or an address masked. */
  path?: string;
  /** Such as `forms.list`, even if the request was rejected before it was called. Absent for an unsupported method. */
  operation?: string | undefined;
}

/** Paths outside `/v1`, on either port. */
const OTHER_ROUTES: [pattern: RegExp, route: string][] = [
  [/^\/(?:livez|readyz|docs|openapi\.json|llms\.txt|metrics)?$/, "$&"],
  [/^\/docs\/[^/]*\/?$/, "/docs/{page}"],
  [/^\/docs\/[^/]+\/[^/]+$/, "/docs/{hash}/{file}"],
  [/^\/trpc\/[^/]*$/, "/trpc/{procedure}"],
];

/** The route of a request that reached no operation. */
export function loggedRoute({ method, originalUrl }: Request, { locals }: Response): LoggedRoute {
  const path = pathOf(originalUrl);
  const found = ROUTES.find(({ pattern }) => pattern.test(path));
  const verb = method === "HEAD" ? "GET" : method;
  if (found) {
    const { path: route = "" } = found.operations[0] ?? {};
    return { route, operation: found.operations.find((one) => one.method === verb)?.name };
  }
  const [pattern, route] = OTHER_ROUTES.find(([other]) => other.test(path)) ?? [];
  if (pattern && route) return { route: path.replace(pattern, route), operation: locals.procedure };
  return { route: "unknown", path: maskPath(path) };
}

/** Load balancers request these several times a second. */
export const HEALTH_CHECKS: ReadonlySet<string> = new Set(["/livez", "/readyz"]);

/** The path of a request target, without scheme and authority, which may contain a password. */
const pathOf = (target: string) => target.replace(/^https?:\/\/[^/?]*/i, "").split("?", 1)[0] ?? "";

/** A word or a version. Public ids and keys are longer, or have digits. */
const UNMASKED = /^(?:[a-z][a-z_-]{0,19}|v\d{1,2}|)$/i;
const MAX_SEGMENTS = 8;

function maskPath(path: string): string {
  const segments = path.split("/", MAX_SEGMENTS + 2);
  const shown = segments.slice(0, MAX_SEGMENTS + 1).map((segment) => (UNMASKED.test(segment) ? segment : "*"));
  return [...shown, ...(segments.length > MAX_SEGMENTS + 1 ? ["…"] : [])].join("/");
}
