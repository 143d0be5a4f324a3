import { isIP } from "node:net";
import type { Request, RequestHandler } from "express";
import { ipKeyGenerator, rateLimit, type Store } from "express-rate-limit";
import type { Services } from "../../server/access/context.js";
import { ServiceError } from "../../server/errors.js";
import { isWellFormed, keyAuthenticator } from "../../server/keys/authenticator.js";
import { rejectRateLimited } from "./rate-limit.js";

/**
 * Sets the principal of a request from its API key. A well-formed key that is unknown, revoked or expired also counts
 * against the client's address: see gateway/docs/contract.md#rate-limits.
 */
export function authenticate(services: Services, store: Store, onLookUp?: (cached: boolean) => void): RequestHandler {
  const countBadKey = rateLimit({
    windowMs: 60_000,
    limit: services.settings.BAD_KEY_LIMIT_MAX,
    standardHeaders: false,
    legacyHeaders: false,
    validate: false,
    keyGenerator: (req) => ipKeyGenerator(clientAddress(req)),
    handler: rejectRateLimited,
    store,
  });
  const authenticateKey = keyAuthenticator(services, onLookUp);
  return async (req, res, next) => {
    const key = readKey(req);
    if (key === undefined) throw unauthenticated(hasKeyHeader(req) ? SENT_WRONGLY : MISSING);
    const principal = await authenticateKey(key);
    if (principal) {
      res.locals.principal = principal;
      next();
      return;
    }
    if (!isWellFormed(key)) throw unauthenticated(MALFORMED);
    await countBadKey(req, res, (error?: unknown) => next(error ?? new ServiceError("UNAUTHENTICATED")));
  };
}

/** The client's address, without the port that some proxies send with it. That of the connection if they sent no address. */
function clientAddress({ ip = "", socket }: Request): string {
  const [, v6, v4] = /^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/.exec(ip) ?? [];
  const address = v6 ?? v4 ?? ip;
  return isIP(address) ? address : (socket.remoteAddress ?? "");
}

const unauthenticated = (message: string) => new ServiceError("UNAUTHENTICATED", { message });

const MISSING = "No API key was sent. Send it as `Authorization: Bearer <key>`.";
const SENT_WRONGLY =
  "The API key was sent twice, or not as a bearer token. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`.";
const MALFORMED = "The API key is incomplete or mistyped: copy all of it, without quotes.";

const hasKeyHeader = ({ headers }: Request) => "authorization" in headers || "x-api-key" in headers;

/** The API key of a request; undefined if there is none, a header is malformed or repeated, or both headers differ. */
export function readKey({ headersDistinct }: Request): string | undefined {
  const bearers = headersDistinct.authorization ?? [];
  const plain = headersDistinct["x-api-key"] ?? [];
  if (bearers.length > 1 || plain.length > 1) return undefined;
  const bearer = bearers[0] === undefined ? undefined : /^Bearer +([^\s]+)$/i.exec(bearers[0])?.[1];
  if (bearers.length > 0 && bearer === undefined) return undefined;
  if (bearer !== undefined && plain[0] !== undefined && bearer !== plain[0]) return undefined;
  return bearer ?? plain[0];
}
