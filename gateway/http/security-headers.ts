import type { RequestHandler } from "express";
import helmet from "helmet";

type Directives = Record<string, readonly string[]>;

/** Sets the security headers, with this Content-Security-Policy besides `default-src 'none'; frame-ancestors 'none'`. */
export const securityHeaders = (directives: Directives = {}, hasHsts = true): RequestHandler =>
  helmet({
    strictTransportSecurity: hasHsts,
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], ...directives, frameAncestors: ["'none'"] },
    },
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xPermittedCrossDomainPolicies: false,
    originAgentCluster: false,
    xXssProtection: false,
    xFrameOptions: { action: "deny" },
  });
