import { randomUUID } from "node:crypto";
import { type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { invalid } from "../../server/errors.js";
import { firstUnfinished, isAdmitted } from "./connections.js";
import { envelope } from "./envelope.js";

/** Answers requests that Node rejects before any handler runs, with the envelope. */
export function handleProtocolErrors(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const [status, issue] = PARSER_ERRORS[error.code ?? ""] ?? [400, "is not well-formed HTTP"];
    if (error.code === "ECONNRESET") socket.destroy();
    else rejectConnection(socket, status, issue);
  });
  server.on("connect", (_req, socket: Duplex) => rejectConnection(socket, 400, "CONNECT is not supported"));
  server.on("checkExpectation", (req, res) => {
    if (!isAdmitted(req, res)) return;
    const { status, headers, body } = errorResponse(417, "has an unsupported Expect header");
    res.writeHead(status, headers).end(body);
  });
  // `input.ts` sends `100 Continue` if it is going to read the body.
  server.on("checkContinue", (req, res) => server.emit("request", req, res));
}

const PARSER_ERRORS: Record<string, [status: number, issue: string]> = {
  HPE_HEADER_OVERFLOW: [431, "has headers that are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "did not arrive in time"],
};

/** How long a rejected client may take to read the response and close its side. Node itself waits without end. */
const LINGER_MS = 1_000;

/** Connections that are rejected once an earlier response has ended. */
const waiting = new WeakSet<Duplex>();

function rejectConnection(socket: Duplex, status: number, issue: string): void {
  const pending = firstUnfinished(socket);
  if (pending?.req.complete) {
    // A pipelined earlier request, whose response must be sent first.
    if (waiting.has(socket)) return;
    waiting.add(socket);
    pending.once("close", () => {
      waiting.delete(socket);
      rejectConnection(socket, status, issue);
    });
    return;
  }
  // A response has begun: the client would read anything more as its body.
  if (!socket.writable || pending?.headersSent) {
    socket.destroy();
    return;
  }
  const { headers, body } = errorResponse(status, issue);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, "", body].join("\r\n"));
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

function errorResponse(status: number, issue: string) {
  const correlationId = randomUUID();
  const body = JSON.stringify(envelope(invalid([{ field: "request", issue }], { status }), correlationId));
  const headers = {
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "X-Correlation-Id": correlationId,
    Connection: "close",
  };
  return { status, headers, body };
}
