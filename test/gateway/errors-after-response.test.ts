import { createServer } from "node:http";
import express from "express";
import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { sendEnvelope } from "../../gateway/http/envelope.js";
import { Unavailable } from "../../server/database/failures.js";
import { listenLocally } from "../support/network.js";

/** Returns the messages that are logged if a request fails after its response was sent. */
async function messagesLoggedFor(failure: Error): Promise<string[]> {
  const lines: string[] = [];
  const app = express();
  app.use((_req, res) => {
    res.status(503).end("answered");
    throw failure;
  });
  app.use(sendEnvelope(pino({}, { write: (line) => void lines.push(JSON.parse(line).msg) })));
  const server = createServer(app);
  const port = await listenLocally(server);
  onTestFinished(() => void server.close());
  const answer = await fetch(`http://127.0.0.1:${port}`);
  expect([answer.status, await answer.text()]).toEqual([503, "answered"]);
  return lines;
}

test.each([
  ["an unexpected error after the deadline response is logged", new TypeError("a bug"), ["request failed"]],
  ["an outage after the deadline response is not logged again", new Unavailable("too long"), []],
])("%s", async (_, failure, messages) => expect(await messagesLoggedFor(failure)).toEqual(messages));
