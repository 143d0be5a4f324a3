import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import { type HttpResponse, parseJson } from "./response.js";

type ResponseCheck = (response: HttpResponse, method: string, path: string) => void;

/** A connection that sends raw bytes. */
export class RawConnection {
  /** Settles when the connection has closed, with the time (`performance.now`). */
  readonly closed: Promise<number>;
  /** Statuses of interim responses, such as 100. */
  readonly interimStatuses: number[] = [];
  #received = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};
  readonly #socket: Socket;
  readonly #check: ResponseCheck;

  private constructor(socket: Socket, check: ResponseCheck) {
    this.#socket = socket;
    this.#check = check;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake();
    });
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#ended = true;
        this.#wake();
        resolve(performance.now());
      });
    });
  }

  static open(port: number, check: ResponseCheck): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RawConnection(socket, check)));
    });
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Half-closes the connection: stops sending, and keeps reading. */
  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Reads the next response. Rejects if the connection closes first or on timeout. */
  async readResponse(method = "GET", path = "/v1", timeoutMs = 15_000): Promise<HttpResponse> {
    const response = await this.#parse(method, performance.now() + timeoutMs);
    this.#check(response, method, path);
    return response;
  }

  async #parse(method: string, deadline: number): Promise<HttpResponse> {
    for (;;) {
      const end = this.#received.indexOf("\r\n\r\n");
      if (end === -1) {
        await this.#waitForData(deadline);
        continue;
      }
      const [line = "", ...lines] = this.#received.subarray(0, end).toString("latin1").split("\r\n");
      const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1]);
      const headers: Record<string, string> = {};
      for (const header of lines) {
        const [, name = "", value = ""] = /^([\w-]+): ?(.*)$/.exec(header) ?? [];
        const known = headers[name.toLowerCase()];
        headers[name.toLowerCase()] = known === undefined ? value : `${known}, ${value}`;
      }
      const length = method === "HEAD" || status < 200 || status === 204 ? 0 : Number(headers["content-length"]);
      expect(Number.isInteger(length), `Content-Length of ${line}`).toBe(true);
      const responseEnd = end + 4 + length;
      if (this.#received.length < responseEnd) {
        await this.#waitForData(deadline);
        continue;
      }
      const body = this.#received.subarray(end + 4, responseEnd).toString();
      this.#received = this.#received.subarray(responseEnd);
      if (status < 200) this.interimStatuses.push(status);
      else return { status, headers, text: body, json: parseJson(body) };
    }
  }

  async #waitForData(deadline: number): Promise<void> {
    if (this.#ended) throw new Error("The connection closed before a complete response.");
    const remainingMs = deadline - performance.now();
    if (remainingMs <= 0) throw new Error("No complete response in time.");
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, remainingMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
