import type { Request, Response } from "express";
import { ROUTES } from "./operations.js";

/** Which path and operation a log line is about. Never the target itself: it may contain secrets. */
export interface LoggedRoute {
  /** The template of the path, such as `/v1/forms/{id}`; "unknown" if none matches. */
  route: string;
  /** If `route` is "unknown": the path with everything that could be an id, a key or an address masked. */
  path?: string;
  /** Such as `forms.list`, if the method is one of the path's, also of requests that were refused before they reached it. */
  operation?: string | undefined;
}

/** Paths beside `/v1`, on either port. */
const OTHERS: [pattern: RegExp, route: string][] = [
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
  const [pattern, route] = OTHERS.find(([other]) => other.test(path)) ?? [];
  if (pattern && route) return { route: path.replace(pattern, route), operation: locals.called };
  return { route: "unknown", path: masked(path) };
}

/** Paths that load balancers ask for several times a second. */
export const HEALTH_CHECKS: ReadonlySet<string> = new Set(["/livez", "/readyz"]);

/** The path of a request target, without scheme and authority, in which a password may stand. */
const pathOf = (target: string) => target.replace(/^https?:\/\/[^/?]*/i, "").split("?", 1)[0] ?? "";

/** A word or a version. Public ids and keys are longer, or have digits. */
const PLAIN = /^(?:[a-z][a-z_-]{0,19}|v\d{1,2}|)$/i;
const MAX_SEGMENTS = 8;

function masked(path: string): string {
  const segments = path.split("/", MAX_SEGMENTS + 2);
  const shown = segments.slice(0, MAX_SEGMENTS + 1).map((segment) => (PLAIN.test(segment) ? segment : "*"));
  return [...shown, ...(segments.length > MAX_SEGMENTS + 1 ? ["…"] : [])].join("/");
}
