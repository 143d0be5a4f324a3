import { randomUUID } from "node:crypto";
import { type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { invalid } from "../../server/errors.js";
import { envelope } from "./envelope.js";
import { unfinishedResponses } from "./request.js";

/** Answers with the envelope what Node refuses before any handler runs. */
export function envelopeRefusals(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const [status, issue] = REFUSALS[error.code ?? ""] ?? [400, "is not well-formed HTTP"];
    if (error.code === "ECONNRESET") socket.destroy();
    else refuse(socket, status, issue);
  });
  server.on("connect", (_req, socket: Duplex) => refuse(socket, 400, "CONNECT is not supported"));
  server.on("checkExpectation", (_req, res) => {
    const { status, headers, body } = refusal(417, "the Expect header asks for what is not supported");
    res.writeHead(status, headers).end(body);
  });
  // `body.ts` sends `100 Continue`, and only if it will read the body.
  server.on("checkContinue", (req, res) => server.emit("request", req, res));
}

const REFUSALS: Record<string, [status: number, issue: string]> = {
  HPE_HEADER_OVERFLOW: [431, "its headers are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "did not arrive in time"],
};

const waiting = new WeakSet<Duplex>();

function refuse(socket: Duplex, status: number, issue: string): void {
  const [answering] = unfinishedResponses.get(socket) ?? [];
  if (answering?.req.complete) {
    // An earlier request of the connection, whose answer must come first.
    if (waiting.has(socket)) return;
    waiting.add(socket);
    answering.once("close", () => {
      waiting.delete(socket);
      refuse(socket, status, issue);
    });
    return;
  }
  // An answer that has begun cannot be taken back; anything more would be read as its body.
  if (!socket.writable || answering?.headersSent) {
    socket.destroy();
    return;
  }
  const { headers, body } = refusal(status, issue);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, "", body].join("\r\n"));
}

function refusal(status: number, issue: string) {
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
