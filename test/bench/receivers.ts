import { createServer } from "node:http";
import { SMTPServer } from "smtp-server";
import { listenLocally } from "../support/network.js";

const ANSWER_MS = 20;
/** Deliveries use new connections, of which one port could only take some ten thousand per minute. */
const HTTP_PORTS = 16;

/** Opens receivers that accept deliveries, each after ANSWER_MS, and a mail server. Returns their ports. */
export async function openReceivers() {
  // It greets a client 100 ms after the client has connected.
  const mailServer = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    disableReverseLookup: true,
    logger: false,
    onData: (stream, _, done) => void stream.resume().once("end", () => done()),
  });
  // A worker that stops closes its connections.
  mailServer.on("error", () => {});
  const webhooks = Array.from({ length: HTTP_PORTS }, () =>
    createServer((request, response) => {
      request.resume().once("end", () => setTimeout(() => response.writeHead(204).end(), ANSWER_MS));
    }),
  );
  return { http: await Promise.all(webhooks.map(listenLocally)), smtp: await listenLocally(mailServer.server) };
}
