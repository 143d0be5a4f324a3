import type { RequestHandler } from "express";
import { invalid } from "../../server/errors.js";

/**
 * Makes `req.url` the path and query exactly as sent. An absolute target loses its scheme and authority. `#` is encoded:
 * otherwise Express would use `url.parse`, which drops all that follows and so matches another path.
 */
export const exactTarget: RequestHandler = (req, _res, next) => {
  const target = req.url.replace(/^https?:\/\/[^/?]*/i, "").replaceAll("#", "%23");
  req.url = target.startsWith("/") ? target : `/${target}`;
  next();
};

/** Demands one Host header. Node's own check answers outside the envelope. */
export const demandHost: RequestHandler = (req, res, next) => {
  const hosts = req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && req.httpVersion === "1.1")) {
    res.setHeader("Connection", "close");
    throw invalid([{ field: "request", issue: "must have one Host header" }]);
  }
  next();
};
