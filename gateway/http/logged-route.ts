import type { Request, Response } from "express";
import { ROUTES } from "../operations/operations.js";

/** Paths outside `/v1`, on either port. */
const OTHER_ROUTES: [pattern: RegExp, route: string][] = [
  [/^\/(?:livez|readyz|docs|openapi\.json|llms\.txt|metrics)?$/, "$&"],
  [/^\/docs\/[^/]*\/?$/, "/docs/{page}"],
  [/^\/docs\/[^/]+\/[^/]+$/, "/docs/{hash}/{file}"],
  [/^\/trpc\/[^/]*$/, "/trpc/{procedure}"],
];

/**
 * What is logged of a request that reached no operation: the template of its path, and the operation even if the request was
 * rejected before it was called. Of an unknown path, segments that could be an id, a key or an address are masked. The
 * request target is not logged, because it may contain secrets.
 */
export function loggedRoute({ method, originalUrl }: Request, { locals }: Response) {
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
