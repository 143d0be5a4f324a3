import { isIPv4, isIPv6 } from "node:net";
import type { RequestHandler } from "express";
import type { Settings } from "../../server/config.js";
import { ServiceError } from "../../server/errors.js";
import { requireJson } from "../http/input.js";

/** A name or an IP address, and a port. */
const HOST = /^(?:\[([^\]]+)\]|([^:]+?))\.?(?::\d*)?$/;

/**
 * Rejects requests for a host name that is neither localhost nor in CONSOLE_HOSTS. Otherwise another site could have its own
 * name resolve to this address, and then counts as same-origin (DNS rebinding). IP addresses resolve to nothing else.
 */
export function requireKnownHost({ CONSOLE_HOSTS = [] }: Settings): RequestHandler {
  const names = new Set(["localhost", ...CONSOLE_HOSTS]);
  return ({ headersDistinct: { host = [] } }, _res, next) => {
    const [, ipv6 = "", name = ""] = (host.length === 1 && HOST.exec(host[0] ?? "")) || [];
    if (!isIPv6(ipv6) && !isIPv4(name) && !names.has(name.toLowerCase())) {
      throw new ServiceError("FORBIDDEN", {
        message:
          "The console does not answer to this host name. Open it at localhost or an IP address, or add the name to CONSOLE_HOSTS.",
      });
    }
    next();
  };
}

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
