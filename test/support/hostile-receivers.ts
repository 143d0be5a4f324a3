import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { pathToFileURL } from "node:url";
import { onTestFinished } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { listenLocally } from "./network.js";

/** Handles a connection of a delivery. */
export type Serve = (socket: Socket) => void;

/** Sends the text again and again, as fast as it is read. */
export const flood = (socket: Socket, text: string, start = ""): void => {
  const block = text.repeat(Math.ceil(65_536 / text.length));
  const write = () => {
    while (!socket.destroyed && socket.write(block));
  };
  socket.on("drain", write).write(start);
  write();
};

/** Sends `start`, then one character of the text per 5 ms. */
const drip = (socket: Socket, text: string, start: string): void => {
  socket.write(start);
  let at = 0;
  const timer = setInterval(() => socket.write(text[at++ % text.length] ?? ""), 5);
  socket.once("close", () => clearInterval(timer));
};

const HEAD = "HTTP/1.1 500 Error\r\n";
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const longHeader = (bytes: number) => `X-Long: ${"x".repeat(bytes)}\r\n`;

export const TOO_MUCH = "sent too much before its answer";
export const CLOSED = "the connection was closed without an answer";

/** What a receiver can do to harm the sender: by name, how its deliveries end, and how it handles a connection. Null: not within seconds. */
export const HOSTILE: Record<string, [outcome: string | null, serve: Serve]> = {
  "100 Continue without end": [TOO_MUCH, (socket) => flood(socket, "HTTP/1.1 100 Continue\r\n\r\n")],
  "102 Processing without end": [TOO_MUCH, (socket) => flood(socket, "HTTP/1.1 102 Processing\r\n\r\n")],
  "103 Early Hints without end": [
    TOO_MUCH,
    (socket) => flood(socket, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"),
  ],
  "interim responses of all kinds, with long headers": [
    TOO_MUCH,
    (socket) =>
      flood(
        socket,
        ["100 A", "102 B", "103 C", "199 D"].map((s) => `HTTP/1.1 ${s}\r\n${longHeader(15_000)}\r\n`).join(""),
      ),
  ],
  "chunks of 1 byte without end": ["answered 500", (socket) => flood(socket, "1\r\nx\r\n", CHUNKED)],
  "chunks with extensions without end": ["answered 500", (socket) => flood(socket, "1;a=b;c=d\r\nx\r\n", CHUNKED)],
  "a chunk extension without end": ["answered 500", (socket) => flood(socket, "x", `${CHUNKED}1;`)],
  "trailers without end": ["answered 500", (socket) => flood(socket, "X-Trailer: x\r\n", `${CHUNKED}0\r\n`)],
  "a header of 200 kB": [
    "the request failed: HPE_HEADER_OVERFLOW",
    (socket) => socket.write(`${HEAD}${longHeader(200_000)}\r\n`),
  ],
  "1,900 headers": [
    "answered 500",
    (socket) => socket.write(`${HEAD}${"a:b\r\n".repeat(1_900)}Content-Length: 0\r\n\r\n`),
  ],
  "headers without end": ["the request failed: HPE_HEADER_OVERFLOW", (socket) => flood(socket, "X: y\r\n", HEAD)],
  "a header, one byte at a time": [null, (socket) => drip(socket, "X: y\r\n", HEAD)],
  "a body without end": ["answered 500", (socket) => flood(socket, "x", `${HEAD}\r\n`)],
  "a body, one byte at a time": ["answered 500", (socket) => drip(socket, "x", `${HEAD}\r\n`)],
  "a body that is a bomb of gzip": [
    "answered 500",
    (socket) => flood(socket, "\0", `${HEAD}Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08`),
  ],
  "a huge Content-Length": [
    "answered 500",
    (socket) => flood(socket, "x", `${HEAD}Content-Length: 9007199254740991\r\n\r\n`),
  ],
  "HTTP/1.0 without a length": ["200", (socket) => socket.end(`HTTP/1.0 200 OK\r\n\r\n${"x".repeat(100_000)}`)],
  "answers without end": ["answered 500", (socket) => flood(socket, `${HEAD}Content-Length: 0\r\n\r\n`)],
  garbage: ["the request failed: HPE_INVALID_CONSTANT", (socket) => flood(socket, "\x80\x81\0")],
  "a reset": [CLOSED, (socket) => socket.resetAndDestroy()],
  "a close within the headers": [CLOSED, (socket) => socket.end(HEAD)],
  "101 Switching Protocols": [
    "answered 101",
    (socket) => flood(socket, "x", "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
  ],
  "a redirect with a body without end": [
    "answered 302: redirects are not followed",
    (socket) => flood(socket, "x", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n"),
  ],
  "an absurd Retry-After": [
    "answered 503",
    (socket) => socket.end(`HTTP/1.1 503 X\r\nRetry-After: ${"9".repeat(15_000)}\r\nDate: ${"9".repeat(500)}\r\n\r\n`),
  ],
  "status 000": ["answered 0", (socket) => socket.end("HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n")],
  "nothing, without reading": [null, (socket) => socket.pause()],
};

/** The compiled `createPost`, for other processes. */
export const POST_MODULE = pathToFileURL(join(packageRoot(), "dist/tools/server/webhooks/request.js")).href;

/** Certificate and key of localhost, trusted by processes with it in NODE_EXTRA_CA_CERTS. */
export const LOCALHOST_PEM = join(packageRoot(), "test/server/localhost.pem");

const RSA_PEM = readFileSync(join(packageRoot(), "test/server/localhost-rsa.pem"));

/** A receiver whose TLS has only Diffie-Hellman in a finite field. */
export const FINITE_FIELD: TlsOptions = {
  key: RSA_PEM,
  cert: RSA_PEM,
  maxVersion: "TLSv1.2",
  ciphers: "DHE-RSA-AES128-GCM-SHA256",
  dhparam: "auto",
};

/** Starts a receiver that is closed after the test, and returns its URL. */
export async function openHostileReceiver(serve: Serve, tls?: TlsOptions): Promise<string> {
  const sockets = new Set<Socket>();
  const onConnection = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    socket.resume();
    serve(socket);
  };
  const pem = tls && readFileSync(LOCALHOST_PEM);
  const server = tls ? createTlsServer({ key: pem, cert: pem, ...tls }, onConnection) : createServer(onConnection);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const port = await listenLocally(server);
  return tls ? `https://localhost:${port}/` : `http://127.0.0.1:${port}/`;
}
