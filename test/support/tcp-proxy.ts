import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterFile } from "./after-file.js";

/** Passes on the bytes of one connection. The proxy itself handles errors and the end of either side. */
export type Forward = (client: Socket, server: Socket) => void;

/** A TCP proxy that a test can cut, freeze or watch. It is closed after the test file. */
export class TcpProxy {
  /** The URL of the target, with the address of the proxy. */
  readonly url: string;
  /** Bytes that clients have sent. */
  bytesSent = 0;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();
  #mode: "pass" | "cut" | "freeze" = "pass";
  #target: URL;

  private constructor(listener: Server, url: string, target: string) {
    this.#listener = listener;
    this.url = url;
    this.#target = new URL(target);
  }

  /** `target` is a URL with a port. `host` is the address to listen on. */
  static async start(
    target: string,
    { host = "127.0.0.1", forward }: { host?: string; forward?: Forward } = {},
  ): Promise<TcpProxy> {
    const listener = createServer().listen(0, host);
    await once(listener, "listening");
    const url = new URL(target);
    url.host = `${host}:${(listener.address() as AddressInfo).port}`;
    const proxy = new TcpProxy(listener, url.href, target);
    listener.on("connection", (client) => {
      if (proxy.#mode === "cut") client.destroy();
      else {
        const { port, hostname } = proxy.#target;
        proxy.#join(client, connect(Number(port), hostname), forward ?? proxy.#pass);
      }
    });
    afterFile(() => proxy.close());
    return proxy;
  }

  /** Leads new connections to this URL. */
  retarget(target: string): void {
    this.#target = new URL(target);
  }

  /** Closes all connections, and new ones, until `restore`. */
  cut(): void {
    this.#mode = "cut";
    this.#destroyConnections();
  }

  /** Connections stay open, and bytes are lost. */
  freeze(): void {
    this.#mode = "freeze";
  }

  /** Passes new connections again. Frozen ones are closed. */
  restore(): void {
    this.#mode = "pass";
    this.#destroyConnections();
  }

  close(): void {
    this.#destroyConnections();
    this.#listener.close();
  }

  #join(client: Socket, server: Socket, forward: Forward): void {
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.on("error", () => {});
      one.once("close", () => {
        this.#sockets.delete(one);
        // Not `destroy`: the other side still gets what was written.
        other.end();
      });
    }
    client.on("data", (chunk) => {
      this.bytesSent += chunk.length;
    });
    forward(client, server);
  }

  readonly #pass: Forward = (client, server) => {
    client.on("data", (chunk) => {
      if (this.#mode === "pass") server.write(chunk);
    });
    server.on("data", (chunk) => {
      if (this.#mode === "pass") client.write(chunk);
    });
  };

  #destroyConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
