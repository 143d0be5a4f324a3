import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { afterAll } from "vitest";

/**
 * A way to a gateway that tears when the answer comes: its client is cut off at the first byte of it, and gets none.
 * One request a connection.
 */
export class TornWay {
  readonly url: string;
  /** Settles with the next answer that the client did not get. */
  #kept: (answer: string) => void = () => {};
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async lay(gatewayUrl: string): Promise<TornWay> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const way = new TornWay(server);
    ways.push(way);
    server.on("connection", (near) => {
      const far = connect(Number(new URL(gatewayUrl).port), "127.0.0.1");
      let answer = "";
      near.on("error", () => {}).pipe(far);
      far.on("error", () => {}).once("data", () => near.resetAndDestroy());
      far.setEncoding("utf8").on("data", (text: string) => {
        answer += text;
      });
      far.once("end", () => way.#kept(answer));
    });
    return way;
  }

  /** The body of the next answer that tears. */
  async next(): Promise<unknown> {
    const answer = await new Promise<string>((resolve) => {
      this.#kept = resolve;
    });
    return JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
  }

  close(): void {
    this.#server.close();
  }
}

const ways: TornWay[] = [];
afterAll(() => {
  for (const way of ways) way.close();
});
