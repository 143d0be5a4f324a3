import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { afterAll } from "vitest";

/**
 * A proxy in front of a gateway that drops every response: it resets the client's connection when the response begins.
 * It supports one request per connection.
 */
export class ResponseDroppingProxy {
  readonly url: string;
  #onResponse: (response: string) => void = () => {};
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(gatewayUrl: string): Promise<ResponseDroppingProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new ResponseDroppingProxy(server);
    proxies.push(proxy);
    server.on("connection", (client) => {
      const gateway = connect(Number(new URL(gatewayUrl).port), "127.0.0.1");
      let response = "";
      client.on("error", () => {}).pipe(gateway);
      gateway.on("error", () => {}).once("data", () => client.resetAndDestroy());
      gateway.setEncoding("utf8").on("data", (text: string) => {
        response += text;
      });
      gateway.once("end", () => proxy.#onResponse(response));
    });
    return proxy;
  }

  /** Resolves with the body of the next response that is dropped. */
  async nextDroppedBody(): Promise<unknown> {
    const response = await new Promise<string>((resolve) => {
      this.#onResponse = resolve;
    });
    return JSON.parse(response.slice(response.indexOf("\r\n\r\n") + 4));
  }

  close(): void {
    this.#server.close();
  }
}

const proxies: ResponseDroppingProxy[] = [];
afterAll(() => {
  for (const proxy of proxies) proxy.close();
});
