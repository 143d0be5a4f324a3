import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * Timeouts in milliseconds, so that slow or silent clients do not hold connections. The short checking interval spreads
 * out the closing of many connections, which would otherwise block all requests.
 */
export const SERVER_OPTIONS = {
  headersTimeout: 8_000,
  requestTimeout: 12_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 250,
  requireHostHeader: false,
};

/** Timeout for closing connections after the last request, so that a hung database cannot block the exit. */
export const CLOSE_TIMEOUT_SECONDS = 2;

/**
 * Connections that may wait until they are accepted; Linux allows up to `net.core.somaxconn`. With Node's default of 511, who
 * opens more at once makes others wait too: Linux drops their first packets, which clients repeat after 1, 3 and 7 s.
 */
const BACKLOG = 4_096;

/** Listens, and resolves with the address as a URL. Rejects if the port is in use. */
export function listen(server: Server, host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, BACKLOG, () => {
      server.off("error", reject);
      const { address, port: actualPort, family } = server.address() as AddressInfo;
      resolve(`http://${family === "IPv6" ? `[${address}]` : address}:${actualPort}`);
    });
  });
}

/** Stops accepting connections. Resolves when the last request has ended; after the timeout, connections are cut. */
export function drain(server: Server, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const interval = setInterval(() => server.closeIdleConnections(), 50);
    const timer = setTimeout(() => server.closeAllConnections(), timeoutMs);
    server.close(() => {
      clearInterval(interval);
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
