import { readFileSync } from "node:fs";
import type { ClientConfig } from "pg";

// The one place that gives `sslmode` its meaning. pg's own differs from libpq's, and pg warns about it on standard error.

/** Removed from the URL, because pg would read them too. */
const TLS_PARAMETERS = ["ssl", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "uselibpqcompat"];

type Tls = "none" | "verified" | "unverified";

const TLS_BY_MODE = new Map<string, Tls>([
  ["disable", "none"],
  ["require", "verified"],
  ["verify-ca", "verified"],
  ["verify-full", "verified"],
  ["no-verify", "unverified"],
]);

/** The values that pg has for `ssl`. */
const TLS_BY_SSL = new Map<string, Tls>([
  ["0", "none"],
  ["false", "none"],
  ["1", "verified"],
  ["true", "verified"],
  ["no-verify", "unverified"],
]);

/** Whether a connection to this URL uses TLS. Undefined if the URL does not say it: then PGSSLMODE counts, as for pg. */
export function tlsOf(parameters: URLSearchParams): Tls | undefined {
  const [mode, ssl] = [parameters.get("sslmode"), parameters.get("ssl")];
  if (mode !== null) return TLS_BY_MODE.get(mode);
  if (ssl !== null) return TLS_BY_SSL.get(ssl);
  return TLS_PARAMETERS.some((name) => parameters.has(name)) ? "verified" : undefined;
}

/** What is wrong with `sslmode` or `ssl` in a URL, and what to write instead. Undefined if nothing is. */
export function tlsIssue(parameters: URLSearchParams): string | undefined {
  const [mode, ssl] = [parameters.get("sslmode"), parameters.get("ssl")];
  if (mode === "allow" || mode === "prefer")
    return `has sslmode=${mode}, which may connect without TLS. Use sslmode=verify-full, or sslmode=disable if the server has no TLS.`;
  if (mode !== null && !TLS_BY_MODE.has(mode))
    return `has an unknown sslmode. Use one of ${[...TLS_BY_MODE.keys()].join(", ")}.`;
  if (mode === null && ssl !== null && !TLS_BY_SSL.has(ssl))
    return "has an unknown value of ssl. Use sslmode=verify-full, or sslmode=disable if the server has no TLS.";
  return undefined;
}

/**
 * Returns pg's configuration of a connection to this URL. Throws if a file in it cannot be read, or if it has an unknown
 * `sslmode`, which `readSettings` has refused.
 */
export function connectionOf(url: string): ClientConfig {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  const parameters = new URLSearchParams(address?.search);
  if (!address || !TLS_PARAMETERS.some((name) => parameters.has(name))) return { connectionString: url };
  const tls = tlsOf(parameters);
  if (!tls) throw new Error(`The URL of the database ${tlsIssue(parameters)}`);
  const negotiation = parameters.get("sslnegotiation");
  for (const name of TLS_PARAMETERS) address.searchParams.delete(name);
  return {
    connectionString: address.href,
    ssl: tls !== "none" && { rejectUnauthorized: tls === "verified", ...readFiles(parameters) },
    ...((negotiation === "direct" || negotiation === "postgres") && { sslnegotiation: negotiation }),
  };
}

function readFiles(parameters: URLSearchParams) {
  const read = (name: string) => {
    const path = parameters.get(name);
    // As in libpq, `sslrootcert=system` means the authorities that the system trusts.
    if (!path || (name === "sslrootcert" && path === "system")) return undefined;
    try {
      return readFileSync(path, "utf8");
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new Error(`Cannot read ${path} (${code}): check ${name} in the URL of the database.`);
    }
  };
  return { ca: read("sslrootcert"), cert: read("sslcert"), key: read("sslkey") };
}
