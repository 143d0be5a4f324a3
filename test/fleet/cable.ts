import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { afterAll } from "vitest";

/** The way to the database, which can be watched and cut. */
export class Cable {
  /** The database's address by this way. */
  readonly url: string;
  /** Bytes that went to the database. */
  sent = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  /** `host` is the address that it takes connections at. */
  static async lay(databaseUrl: string, host = "127.0.0.1"): Promise<Cable> {
    const target = new URL(databaseUrl);
    const server = createServer().listen(0, host);
    await once(server, "listening");
    const address = server.address();
    if (typeof address !== "object" || !address) throw new Error("The cable has no port.");
    const url = new URL(databaseUrl);
    url.host = `${host}:${address.port}`;
    const cable = new Cable(server, url.href);
    server.on("connection", (near) => cable.#join(near, target));
    cables.push(cable);
    return cable;
  }

  /** Ends all connections, and lets none pass until it is mended. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #join(near: Socket, target: URL): void {
    if (this.#isCut) {
      near.destroy();
      return;
    }
    const far = connect(Number(target.port || 5432), target.hostname);
    near.on("data", (chunk) => {
      this.sent += chunk.length;
    });
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
  }
}

const cables: Cable[] = [];
afterAll(() => {
  for (const cable of cables) cable.close();
});
