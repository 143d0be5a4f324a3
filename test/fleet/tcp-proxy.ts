import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterAll } from "vitest";

/** A TCP proxy in front of the database that counts bytes and can be disabled. */
export class TcpProxy {
  /** postgres:// address through the proxy. */
  readonly url: string;
  /** Bytes sent to the database. */
  bytesSent = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isDisabled = false;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  /** `host` is the address to listen on. */
  static async start(databaseUrl: string, host = "127.0.0.1"): Promise<TcpProxy> {
    const target = new URL(databaseUrl);
    const server = createServer().listen(0, host);
    await once(server, "listening");
    const address = server.address();
    if (typeof address !== "object" || !address) throw new Error("The proxy has no port.");
    const url = new URL(databaseUrl);
    url.host = `${host}:${address.port}`;
    const proxy = new TcpProxy(server, url.href);
    server.on("connection", (client) => proxy.#forward(client, target));
    proxies.push(proxy);
    return proxy;
  }

  /** Closes all connections and rejects new ones until `enable`. */
  disable(): void {
    this.#isDisabled = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  enable(): void {
    this.#isDisabled = false;
  }

  close(): void {
    this.disable();
    this.#server.close();
  }

  #forward(client: Socket, target: URL): void {
    if (this.#isDisabled) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(target.port || 5432), target.hostname);
    client.on("data", (chunk) => {
      this.bytesSent += chunk.length;
    });
    client.pipe(upstream).pipe(client);
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
  }
}

const proxies: TcpProxy[] = [];
afterAll(() => {
  for (const proxy of proxies) proxy.close();
});
