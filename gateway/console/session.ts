import type { Request, RequestHandler, Response, Router } from "express";
import { ipKeyGenerator, rateLimit } from "express-rate-limit";
import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import { z } from "zod";
import { type OperatorSession, type OperatorSessions, SESSION_HOURS } from "../../server/access/operator-sessions.js";
import type { Settings } from "../../server/config.js";
import { toServiceError } from "../../server/database/failures.js";
import { expected, fieldErrorsOf, invalid, ServiceError } from "../../server/errors.js";
import { text } from "../../server/values.js";
import { readBody, requireJson } from "../http/body.js";
import { enforceTimeout, isAnswered } from "../http/deadline.js";
import { rejectMethod } from "../http/methods.js";
import { LocalStore, rejectRateLimited } from "../http/rate-limit.js";
import { sendJson } from "../http/request.js";

const signInInput = z.strictObject({ token: z.string({ error: expected("a string") }), name: text(80) });

/** Signs operators in and out at `/session`. */
export function serveSession(
  router: Router,
  sessions: OperatorSessions,
  { settings, log, isToken }: { settings: Settings; log: Logger; isToken: (sent: string) => boolean },
): void {
  /** Ends the sessions of the browser, starts one if `name` is given, and sends the cookies. */
  const replaceSessions = async (req: Request, res: Response, name?: string) => {
    const { correlationId } = res.locals;
    const cookies = readCookies(req);
    for (const ended of await sessions.end([...cookies.values()]))
      log.info({ name: ended, correlationId }, "console sign-out");
    // An empty value clears the cookie.
    for (const cookie of cookies.keys()) cookies.set(cookie, "");
    if (name !== undefined) cookies.set(cookieName(req), await sessions.start(name));
    if (isAnswered(res)) return;
    if (name !== undefined) log.info({ name, correlationId }, "console sign-in");
    for (const [cookie, value] of cookies) {
      res.cookie(cookie, value, {
        path: "/console",
        httpOnly: true,
        sameSite: "strict",
        secure: cookie === SECURE_COOKIE,
        maxAge: value ? SESSION_HOURS * 3_600_000 : 0,
      });
    }
    sendJson(res.status(204));
  };
  router
    .route("/session")
    .all(enforceTimeout(settings, log))
    .get(async (req, res) => {
      sendJson(res, JSON.stringify(await findSession(sessions, req)));
    })
    .post(limitFailures(), readBody(settings), async (req, res) => {
      const { values, fieldErrors } = res.locals.body ?? { values: {}, fieldErrors: [] };
      const { data, error } = signInInput.safeParse(values);
      if (!data || fieldErrors.length > 0) throw invalid([...fieldErrors, ...(error ? fieldErrorsOf(error) : [])]);
      // Names are logged and stored.
      if (isToken(data.name)) throw invalid([{ field: "name", issue: "must not be the token" }]);
      if (!isToken(data.token)) throw new ServiceError("UNAUTHENTICATED", { message: "The token is wrong." });
      await replaceSessions(req, res, data.name);
    })
    .delete((req, res) => replaceSessions(req, res))
    .all(rejectMethod("GET, HEAD, POST, DELETE"));
}

const RECENT_SESSION_MS = 60_000;
const MAX_RECENT_SESSIONS = 100;
/** What shows the state of the process while the database is gone. */
const WITHOUT_DATABASE: readonly string[] = ["/console.overview", "/console.health"];

/**
 * Makes the operator of the session the actor of the request. UNAUTHENTICATED without a session. If the database does not answer,
 * the calls of the first page accept a session that was found within the last minute.
 */
export function requireSession(sessions: OperatorSessions): RequestHandler {
  const recent = new LRUCache<string, OperatorSession>({ max: MAX_RECENT_SESSIONS, ttl: RECENT_SESSION_MS });
  return async (req, res, next) => {
    const key = [...readCookies(req).values()].join();
    let session: OperatorSession | undefined;
    try {
      session = await findSession(sessions, req);
      recent.set(key, session);
    } catch (error) {
      const isOutage = toServiceError(error).status === 503;
      session = isOutage && WITHOUT_DATABASE.includes(req.path) ? recent.get(key) : undefined;
      if (!session) throw error;
    }
    res.locals.actor = { kind: "operator", name: session.name };
    next();
  };
}

async function findSession(sessions: OperatorSessions, req: Request) {
  // Seconds since the last input in the tab. A client that does not send the header counts as in use.
  const idleSeconds = /^\d+$/.exec(req.get("x-idle-seconds") ?? "")?.[0] ?? 0;
  const session = await sessions.find([...readCookies(req).values()], Number(idleSeconds));
  if (!session)
    throw new ServiceError("UNAUTHENTICATED", { message: "You are not signed in, or your session has ended." });
  return session;
}

const COOKIE = "guest_forms_console";
const SECURE_COOKIE = `__Secure-${COOKIE}`;

/** The names and values of the session cookies. A browser that has signed in over http too sends both over https. */
function readCookies({ headers: { cookie = "" } }: Request): Map<string, string> {
  const cookies = new Map<string, string>();
  for (const name of [SECURE_COOKIE, COOKIE]) {
    const value = new RegExp(`(?:^|; *)${name}=([\\w-]{43})(?=;|$)`).exec(cookie)?.[1];
    if (value !== undefined) cookies.set(name, value);
  }
  return cookies;
}

/** The internal port speaks http, so only the origin of the page says whether a proxy adds TLS. */
const cookieName = ({ headers: { origin } }: Request) => (origin?.startsWith("https://") ? SECURE_COOKIE : COOKIE);

/** Rejects writes that another site makes the browser send. A read changes nothing, and its response cannot be read there. */
export const requireSameOrigin: RequestHandler = (req, _res, next) => {
  const { method, headers } = req;
  if (method === "GET" || method === "HEAD") return next();
  const { host, origin = "", "sec-fetch-site": site } = headers;
  const isOwnOrigin = [`http://${host}`, `https://${host}`].includes(origin);
  if (site === undefined ? !isOwnOrigin : site !== "same-origin") {
    throw new ServiceError("FORBIDDEN", { message: "Only the pages of the console may send this request." });
  }
  if (method === "POST") requireJson(req.headersDistinct);
  next();
};

const FAILURES_WINDOW_MS = 60_000;
const MAX_FAILURES = 10;

/**
 * Limits failed sign-ins per address of the connection, because anyone who reaches the port can forge X-Forwarded-For. Behind a
 * proxy all operators share one address, so the window is short: a token of at least 32 characters is not guessed at this rate,
 * and someone who fails on purpose does not lock others out for long.
 */
const limitFailures = () =>
  rateLimit({
    windowMs: FAILURES_WINDOW_MS,
    limit: MAX_FAILURES,
    standardHeaders: false,
    legacyHeaders: false,
    validate: false,
    store: new LocalStore(),
    skipSuccessfulRequests: true,
    requestWasSuccessful: (_req, { statusCode }) => statusCode !== 401,
    keyGenerator: ({ socket }) => ipKeyGenerator(socket.remoteAddress ?? ""),
    handler: rejectRateLimited,
  });
