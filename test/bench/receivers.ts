import { createServer } from "node:http";
import { SMTPServer } from "smtp-server";
import { listenLocally } from "../support/network.js";

// A process that accepts deliveries, each after ANSWER_MS, and emails. Sends its ports to its parent.

const ANSWER_MS = 20;
/** Deliveries use new connections, of which one port could only take some ten thousand per minute. */
const HTTP_PORTS = 16;

const openWebhooks = () =>
  listenLocally(
    createServer((request, response) => {
      request.resume().once("end", () => setTimeout(() => response.writeHead(204).end(), ANSWER_MS));
    }),
  );

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

/** Ports of 127.0.0.1. */
export interface Ports {
  http: number[];
  smtp: number;
}

const ports: Ports = {
  http: await Promise.all(Array.from({ length: HTTP_PORTS }, openWebhooks)),
  smtp: await listenLocally(mailServer.server),
};
process.send?.(ports);
process.once("disconnect", () => process.exit());
