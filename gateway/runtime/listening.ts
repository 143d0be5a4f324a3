import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Settings } from "../../server/config.js";

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

/** The process cannot listen on the address in its settings. */
export class ListenError extends Error {
  override readonly name = "ListenError";
  readonly setting: PortSetting;
  /** System error, such as EADDRINUSE. */
  readonly code: string | undefined;

  constructor(setting: PortSetting, cause: NodeJS.ErrnoException) {
    super(cause.message, { cause });
    this.setting = setting;
    this.code = cause.code;
  }
}

type PortSetting = "PORT" | "INTERNAL_PORT";
export const HOST_SETTING = { PORT: "HOST", INTERNAL_PORT: "INTERNAL_HOST" } as const satisfies Record<
  PortSetting,
  string
>;

/** Listens on the port in this setting, and resolves with the address as a URL. Rejects with a ListenError. */
export function listen(server: Server, settings: Settings, setting: PortSetting): Promise<string> {
  return new Promise((resolve, reject) => {
    const onError = (cause: NodeJS.ErrnoException) => reject(new ListenError(setting, cause));
    server.once("error", onError);
    server.listen(settings[setting], settings[HOST_SETTING[setting]], BACKLOG, () => {
      server.off("error", onError);
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
