import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Slow or silent clients may not hold a connection for long (milliseconds). Looked for often, so that of many that come
 * at once few are closed in one go, for which all others would wait.
 */
export const LIMITS = {
  headersTimeout: 8_000,
  requestTimeout: 12_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 250,
  requireHostHeader: false,
};

/** Listens there, and gives the address as a URL; rejects where the port is taken. */
export function listen(server: Server, host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      const { address, port: taken, family } = server.address() as AddressInfo;
      resolve(`http://${family === "IPv6" ? `[${address}]` : address}:${taken}`);
    });
  });
}

/** Resolves when the last request is answered, or when time is up and what is left has been cut off. */
export function drain(server: Server, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const sweep = setInterval(() => server.closeIdleConnections(), 50);
    const cut = setTimeout(() => server.closeAllConnections(), ms);
    server.close(() => {
      clearInterval(sweep);
      clearTimeout(cut);
      resolve();
    });
    server.closeIdleConnections();
  });
}
