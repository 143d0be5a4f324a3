import type { Request, RequestHandler, Response, Router } from "express";
import { ipKeyGenerator, rateLimit } from "express-rate-limit";
import type { Logger } from "pino";
import { z } from "zod";
import { type OperatorSessions, SESSION_HOURS } from "../../server/access/operator-sessions.js";
import type { Settings } from "../../server/config.js";
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
  router
    .route("/session")
    .all(enforceTimeout(settings, log))
    .get(async (req, res) => {
      sendJson(res, JSON.stringify(await findSession(sessions, req)));
    })
    .post(...limitFailures(), readBody(settings), async (req, res) => {
      const { values, fieldErrors } = res.locals.body ?? { values: {}, fieldErrors: [] };
      const { data, error } = signInInput.safeParse(values);
      if (!data || fieldErrors.length > 0) throw invalid([...fieldErrors, ...(error ? fieldErrorsOf(error) : [])]);
      // Names are logged and stored.
      if (isToken(data.name)) throw invalid([{ field: "name", issue: "must not be the token" }]);
      if (!isToken(data.token)) throw new ServiceError("UNAUTHENTICATED", { message: "The token is wrong." });
      const id = await sessions.start(data.name);
      if (isAnswered(res)) return;
      log.info({ name: data.name, correlationId: res.locals.correlationId }, "console sign-in");
      setCookie(req, res, id, SESSION_HOURS * 3600);
      sendJson(res.status(204));
    })
    .delete(async (req, res) => {
      const id = readCookie(req);
      const session = id === undefined ? undefined : await sessions.find(id);
      if (id !== undefined) await sessions.end(id);
      if (isAnswered(res)) return;
      if (session) log.info({ name: session.name, correlationId: res.locals.correlationId }, "console sign-out");
      setCookie(req, res, "", 0);
      sendJson(res.status(204));
    })
    .all(rejectMethod("GET, HEAD, POST, DELETE"));
}

/** Makes the operator of the session the actor of the request. UNAUTHENTICATED without a session. */
export function requireSession(sessions: OperatorSessions): RequestHandler {
  return async (req, res, next) => {
    const { name } = await findSession(sessions, req);
    res.locals.actor = { kind: "operator", name };
    next();
  };
}

async function findSession(sessions: OperatorSessions, req: Request) {
  const id = readCookie(req);
  const session = id === undefined ? undefined : await sessions.find(id);
  if (!session)
    throw new ServiceError("UNAUTHENTICATED", { message: "You are not signed in, or your session has ended." });
  return session;
}

const COOKIE = "guest_forms_console";
const SECURE_COOKIE = `__Secure-${COOKIE}`;

const findCookie = (header: string, name: string) =>
  new RegExp(`(?:^|; *)${name}=([\\w-]{43})(?=;|$)`).exec(header)?.[1];

// A browser that has signed in over http too sends both over https.
const readCookie = ({ headers: { cookie = "" } }: Request) =>
  findCookie(cookie, SECURE_COOKIE) ?? findCookie(cookie, COOKIE);

/** The internal port speaks http, so only the origin of the page says whether a proxy adds TLS. */
function setCookie({ headers }: Request, res: Response, value: string, seconds: number): void {
  const isHttps = headers.origin?.startsWith("https://") ?? false;
  res.cookie(isHttps ? SECURE_COOKIE : COOKIE, value, {
    path: "/console",
    httpOnly: true,
    sameSite: "strict",
    secure: isHttps,
    maxAge: seconds * 1000,
  });
}

/** Rejects writes that another site makes the browser send. A read changes nothing, and its response cannot be read there. */
export const requireSameOrigin: RequestHandler = (req, _res, next) => {
  const { method, headers } = req;
  if (method === "GET" || method === "HEAD") return next();
  const site = headers["sec-fetch-site"];
  if (site === undefined ? !isHost(headers.origin, headers.host) : site !== "same-origin") {
    throw new ServiceError("FORBIDDEN", { message: "Only the pages of the console may send this request." });
  }
  if (method === "POST") requireJson(req.headersDistinct);
  next();
};

const isHost = (origin = "", host = "") => URL.canParse(origin) && new URL(origin).host === host;

const FAILURES_WINDOW_MS = 15 * 60_000;
const MAX_FAILURES = 10;
const MAX_FAILURES_OF_ALL = 100;

/**
 * Limits failed sign-ins of each client address. If those of all addresses together are too many, one failure is enough:
 * others can still sign in, and an attacker with many addresses has one guess with each.
 */
function limitFailures(): RequestHandler[] {
  const failures = (options: Parameters<typeof rateLimit>[0]) =>
    rateLimit({
      windowMs: FAILURES_WINDOW_MS,
      standardHeaders: false,
      legacyHeaders: false,
      validate: false,
      store: new LocalStore(),
      skipSuccessfulRequests: true,
      requestWasSuccessful: (_req, { statusCode }) => statusCode !== 401,
      ...options,
    });
  const underAttack = new WeakSet<object>();
  return [
    failures({
      keyGenerator: () => "all",
      limit: MAX_FAILURES_OF_ALL,
      handler(_req, res, next) {
        underAttack.add(res);
        next();
      },
    }),
    failures({
      keyGenerator: ({ ip = "" }) => ipKeyGenerator(ip),
      limit: (_req, res) => (underAttack.has(res) ? 1 : MAX_FAILURES),
      handler: rejectRateLimited,
    }),
  ];
}
