import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { BoundedConnection } from "../../server/webhooks/connection.js";
import { createPost, type DeliveryFailed } from "../../server/webhooks/request.js";
import {
  FINITE_FIELD,
  flood,
  LOCALHOST_PEM,
  openHostileReceiver,
  POST_MODULE,
  type Serve,
  TOO_MUCH,
} from "../support/hostile-receivers.js";
import { listenLocally } from "../support/network.js";
import { spawnNode } from "../support/processes.js";

const post = createPost({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: true });

/** Sends a delivery. Resolves to how it ended, once the receiver has seen the end of the connection. */
async function deliverTo(serve: Serve) {
  let closed: Promise<unknown> | undefined;
  const url = await openHostileReceiver((socket) => {
    closed = new Promise((resolve) => socket.once("close", resolve));
    serve(socket);
  });
  const outcome = await post(url, {}, "{}").then(
    ({ status }) => ({ status, reason: null, body: "" }),
    ({ message, answer }: DeliveryFailed) => ({ status: answer?.status, reason: message, body: answer?.body ?? "" }),
  );
  await closed;
  return outcome;
}

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const CHUNKED = "HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n";
/** An interim response of this length. */
const interim = (bytes: number) => `HTTP/1.1 103 X\r\nX: ${"x".repeat(bytes - 23)}\r\n\r\n`;

test("an attempt ends at the ninth interim response, of any kind", async () => {
  for (const status of [100, 102, 103, 199]) {
    const line = `HTTP/1.1 ${status} X\r\n\r\n`;
    expect(await deliverTo((socket) => socket.write(line.repeat(8) + OK))).toMatchObject({ status: 200 });
    expect(await deliverTo((socket) => socket.write(line.repeat(9)))).toMatchObject({ reason: TOO_MUCH });
    expect(await deliverTo((socket) => flood(socket, line))).toMatchObject({ reason: TOO_MUCH });
  }
});

test("an attempt ends if an answer is not complete after 64 kB, interim responses and headers counted", async () => {
  const before = interim(15_000).repeat(4);
  const rest = 65_536 - before.length;
  const answer = OK.replace("\r\n\r\n", `\r\nX: ${"x".repeat(rest - OK.length - 5)}\r\n\r\n`);
  expect((before + answer).length).toBe(65_536);
  expect(await deliverTo((socket) => socket.write(before + answer))).toMatchObject({ status: 200 });
  const longer = answer.replace("X: ", "X: x");
  expect(await deliverTo((socket) => socket.write(before + longer))).toMatchObject({ reason: TOO_MUCH });
});

test.each([
  ["16 kB", (socket: Socket) => flood(socket, "x".repeat(1_000)), 16_384, 18_432],
  ["256 pieces", (socket: Socket) => flood(socket, "1\r\nx\r\n".repeat(1_000)), 256, 700],
])("of the body of an answer at most %s are read, and its status counts", async (what, send, least, most) => {
  const head = what === "256 pieces" ? CHUNKED : "HTTP/1.1 500 X\r\n\r\n";
  const { reason, body } = await deliverTo((socket) => {
    socket.write(head);
    send(socket);
  });
  expect(reason).toBe("answered 500");
  expect(body.length).toBeGreaterThanOrEqual(least);
  expect(body.length).toBeLessThanOrEqual(most);
});

test.each([
  ["chunk extensions", "1;", "x"],
  ["trailers", "0\r\n", "X: x\r\n"],
])("an answer with %s without end is not read further", async (_, start, text) => {
  const outcome = await deliverTo((socket) => {
    socket.write(CHUNKED + start);
    flood(socket, text.repeat(1_000));
  });
  expect(outcome).toMatchObject({ reason: "answered 500" });
});

/** Sends a delivery from a process of its own, which trusts the receiver. Returns how it ended. */
async function deliverFromProcess(url: string, ...options: string[]): Promise<string> {
  const script = `
    const { createPost } = await import(${JSON.stringify(POST_MODULE)});
    const post = createPost({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: true });
    await post(process.argv[1], {}, "{}").then(({ status }) => console.log(status), ({ message }) => console.log(message));`;
  const env = { NODE_EXTRA_CA_CERTS: LOCALHOST_PEM };
  const { stdout, stderr } = await spawnNode([...options, "--input-type=module", "-e", script, url], { env }).done;
  expect(stderr).toBe("");
  return stdout.trim();
}

test("a header of more than 16 kB ends an attempt, with any --max-http-header-size", async () => {
  const url = await openHostileReceiver((socket) =>
    socket.write(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(20_000)}\r\n\r\n`),
  );
  const outcome = await deliverFromProcess(url, "--max-http-header-size=60000");
  expect(outcome).toBe("the request failed: HPE_HEADER_OVERFLOW");
});

test("a connection is closed after an answer, though the receiver goes on sending and does not close it", async () => {
  const server = createServer({ allowHalfOpen: true });
  const closed = new Promise<void>((resolve) => {
    server.once("connection", (socket) => {
      socket.write(OK);
      const timer = setInterval(() => socket.write("x"), 20);
      socket.resume().on("error", () => {
        clearInterval(timer);
        resolve();
      });
    });
  });
  onTestFinished(() => void server.close());
  const start = performance.now();
  await post(`http://127.0.0.1:${await listenLocally(server)}/`, {}, "{}");
  await closed;
  expect(performance.now() - start).toBeLessThan(5_000);
});

test.each([
  ["TCP", 1],
  ["TCP", 16],
  ["TLS", 1],
  ["TLS", 16],
])(
  "an answer counts, whole, if the receiver resets the connection after it: over %s, %i at a time",
  async (protocol, concurrency) => {
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n${"x".repeat(16_000)}`;
    const pem = readFileSync(LOCALHOST_PEM);
    const server = createServer((connection) => {
      const socket =
        protocol === "TLS" ? new TLSSocket(connection, { isServer: true, key: pem, cert: pem }) : connection;
      socket.on("error", () => {});
      socket.once("data", () => socket.write(answer, () => connection.resetAndDestroy()));
    });
    onTestFinished(() => void server.close());
    const port = await listenLocally(server);
    const url = protocol === "TLS" ? `https://localhost:${port}/` : `http://127.0.0.1:${port}/`;
    const task = { module: POST_MODULE, url, count: 256, concurrency };
    const script = join(packageRoot(), "test/support/compare-posts.mjs");
    const env = { NODE_EXTRA_CA_CERTS: LOCALHOST_PEM };
    const { stdout, stderr } = await spawnNode([script, JSON.stringify(task)], { env }).done;
    expect(stderr).toBe("");
    const outcomes = { "200, 16000 bytes": 256 };
    expect(JSON.parse(stdout)).toEqual({ requests: outcomes, deliveries: outcomes });
  },
);

test("what was received before a write fails is read before the error", async () => {
  const inner = new Duplex({
    read() {},
    write(_chunk, _encoding, done) {
      this.push("x".repeat(10_000));
      done(new Error("reset"));
    },
  });
  const connection = new BoundedConnection(inner);
  let bytes = 0;
  connection.on("data", ({ length }) => {
    bytes += length;
  });
  connection.write("request");
  const error = await new Promise<Error>((resolve) => connection.once("error", resolve));
  expect([bytes, error.message]).toEqual([10_000, "reset"]);
});

describe("TLS", () => {
  const failureOverTls = async (...args: Parameters<typeof openHostileReceiver>) =>
    deliverFromProcess(await openHostileReceiver(...args));
  const answer: Serve = (socket) => socket.end(OK);

  test.each([
    ["a current server", "200", {}],
    ["TLS 1.2", "200", { maxVersion: "TLSv1.2" }],
    ["P-256", "200", { ecdhCurve: "P-256" }],
    ["P-384", "200", { ecdhCurve: "P-384" }],
    ["P-521 only", "the request failed: EPROTO", { ecdhCurve: "P-521" }],
    ["Diffie-Hellman in a finite field only", "the request failed: EPROTO", FINITE_FIELD],
  ] as const)("with %s: %s", async (_, outcome, tls) => {
    expect(await failureOverTls(answer, tls)).toBe(outcome);
  });

  test("a receiver cannot begin further handshakes on a connection", async () => {
    let handshakes = 0;
    const renegotiate: Serve = (socket) => {
      // The receiver is told that the sender does not renegotiate.
      (socket as TLSSocket).renegotiate({}, (error) => {
        if (error) socket.destroy();
        else handshakes++;
      });
    };
    await failureOverTls(renegotiate, { maxVersion: "TLSv1.2" });
    expect(handshakes).toBe(0);
  });

  test("an attempt ends after 32 kB that are not content, such as records of one byte", async () => {
    let bytes = 0;
    const drip: Serve = (socket) => {
      const write = () => {
        if (socket.destroyed) return;
        bytes++;
        socket.write("x");
        setImmediate(write);
      };
      socket.write("HTTP/1.1 200 OK\r\nX: ");
      write();
    };
    expect(await failureOverTls(drip, {})).toBe(TOO_MUCH);
    // A record adds 22 bytes to its content.
    expect(bytes).toBeGreaterThan(1_000);
    expect(bytes).toBeLessThan(16_000);
  });
});
