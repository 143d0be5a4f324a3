import type { Request, RequestHandler, Response, Router } from "express";
import { ipKeyGenerator, rateLimit } from "express-rate-limit";
import type { Logger } from "pino";
import { z } from "zod";
import { SESSION_HOURS } from "../../server/access/operator-sessions.js";
import type { Settings } from "../../server/config.js";
import { expected, fieldErrorsOf, invalid, ServiceError } from "../../server/errors.js";
import { operatorName } from "../../server/texts.js";
import { enforceTimeout, isAnswered } from "../http/deadline.js";
import { readBody } from "../http/input.js";
import { rejectMethod } from "../http/methods.js";
import { LocalStore, rejectRateLimited } from "../http/rate-limit.js";
import { sendJson } from "../http/request.js";
import type { SessionCookies } from "./cookies.js";
import type { KnownSessions } from "./known-sessions.js";

const signInInput = z.strictObject({ token: z.string({ error: expected("a string") }), name: operatorName });

interface SessionDeps {
  cookies: SessionCookies;
  settings: Settings;
  log: Logger;
  isToken: (sent: string) => boolean;
}

/** Signs operators in and out at `/session`. */
export function serveSession(router: Router, sessions: KnownSessions, deps: SessionDeps): void {
  const { cookies, settings, log, isToken } = deps;
  /** Starts a session if `name` is given, ends those of the browser, and sends the cookies. */
  const replaceSessions = async (req: Request, res: Response, name?: string) => {
    const { correlationId } = res.locals;
    const sent = cookies.read(req);
    const started = name === undefined ? undefined : await sessions.start(name);
    for (const ended of await sessions.end(sent.map(({ id }) => id)))
      log.info({ name: ended, correlationId }, "console sign-out");
    // An empty value clears the cookie.
    const values = new Map(sent.map(({ name }) => [name, ""]));
    if (started !== undefined) values.set(cookies.nameFor(req), started);
    if (isAnswered(res)) return;
    if (name !== undefined) log.info({ name, correlationId }, "console sign-in");
    for (const [cookie, value] of values) {
      res.cookie(cookie, value, {
        path: "/console",
        httpOnly: true,
        sameSite: "strict",
        secure: cookies.isSecure(cookie),
        maxAge: value ? SESSION_HOURS * 3_600_000 : 0,
      });
    }
    sendJson(res.status(204));
  };
  const signIn: RequestHandler = async (req, res, next) => {
    const { values, fieldErrors } = res.locals.body ?? { values: {}, fieldErrors: [] };
    const { data, error } = signInInput.safeParse(values);
    if (!data || fieldErrors.length > 0) throw invalid([...fieldErrors, ...(error ? fieldErrorsOf(error) : [])]);
    if (!isToken(data.token)) return next();
    // Names are logged and stored.
    if (isToken(data.name)) throw invalid([{ field: "name", issue: "must not be the token" }]);
    await replaceSessions(req, res, data.name);
  };
  router
    .route("/session")
    .all(enforceTimeout(settings, log))
    .get(async (req, res) => {
      const { name } = await findSession(sessions, cookies, req, true);
      sendJson(res, JSON.stringify({ name }));
    })
    .post(readBody(settings), signIn, limitFailures(), rejectWrongToken)
    .delete((req, res) => replaceSessions(req, res))
    .all(rejectMethod("GET, HEAD, POST, DELETE"));
}

/** What shows the state of the process while the database is gone. */
const WITHOUT_DATABASE: readonly string[] = ["/console.overview", "/console.health"];

/**
 * Makes the operator of the session the actor of the request. UNAUTHENTICATED without a session. Only the calls of the first
 * page accept a remembered one.
 */
export function requireSession(sessions: KnownSessions, cookies: SessionCookies): RequestHandler {
  return async (req, res, next) => {
    const { name } = await findSession(sessions, cookies, req, WITHOUT_DATABASE.includes(req.path));
    res.locals.actor = { kind: "operator", name };
    next();
  };
}

function findSession(sessions: KnownSessions, cookies: SessionCookies, req: Request, acceptsRemembered: boolean) {
  // Seconds since the last input in the tab. A client that does not send the header counts as in use.
  const idleSeconds = /^\d+$/.exec(req.get("x-idle-seconds") ?? "")?.[0] ?? 0;
  const ids = cookies.read(req).map(({ id }) => id);
  return sessions.find(ids, Number(idleSeconds), acceptsRemembered);
}

const FAILURES_WINDOW_MS = 60_000;
const MAX_FAILURES = 10;

/**
 * Limits wrong tokens per address of the connection, because anyone who reaches the port can forge X-Forwarded-For. Comes after
 * the comparison: otherwise someone who shares the operators' address, such as that of a proxy, could keep them out. So it does
 * not slow down guessing, which a token of at least 32 characters makes hopeless.
 */
const limitFailures = () =>
  rateLimit({
    windowMs: FAILURES_WINDOW_MS,
    limit: MAX_FAILURES,
    standardHeaders: false,
    legacyHeaders: false,
    validate: false,
    store: new LocalStore(),
    keyGenerator: ({ socket }) => ipKeyGenerator(socket.remoteAddress ?? ""),
    handler: rejectRateLimited,
  });

const rejectWrongToken: RequestHandler = () => {
  throw new ServiceError("UNAUTHENTICATED", { message: "The token is wrong." });
};
