import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";

/** Lets the server listen on a free port of 127.0.0.1, which is returned. */
export async function listenLocally(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Returns a port of 127.0.0.1 on which nothing listens at the moment. Connections of other processes may take it soon. */
export async function freePort(): Promise<number> {
  const port = await tryPort(0);
  if (port === undefined) throw new Error("No port of 127.0.0.1 is free.");
  return port;
}

const LOWEST_PORT = 20_000;
const PORT_COUNT = 10_000;

/**
 * Returns a free port below the ephemeral range. No connection takes it while its server is down, so the server can be
 * started again on the same port.
 */
export async function restartablePort(): Promise<number> {
  for (;;) {
    const port = await tryPort(LOWEST_PORT + Math.floor(Math.random() * PORT_COUNT));
    if (port !== undefined) return port;
  }
}

/** Returns the port, or a free one for port 0; undefined if it is in use. */
async function tryPort(wanted: number): Promise<number | undefined> {
  const listener = createServer().listen(wanted, "127.0.0.1");
  const isFree = await once(listener, "listening").then(
    () => true,
    () => false,
  );
  const port = isFree ? (listener.address() as AddressInfo).port : undefined;
  listener.close();
  return port;
}

/** Whether a server listens on this port of 127.0.0.1. */
export const acceptsConnections = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
