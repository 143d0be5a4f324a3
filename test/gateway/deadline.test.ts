import { createServer } from "node:http";
import express from "express";
import pino from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import { Deadline } from "../../gateway/http/deadline.js";
import { sendEnvelope } from "../../gateway/http/envelope.js";
import { Unavailable } from "../../server/database/failures.js";
import { holdLock } from "../support/locks.js";
import { listenLocally } from "../support/network.js";
import { errorCodeOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { startHolderGateway } from "./holder-gateway.js";

/** The longest single wait. A request gets its response at most 300 ms later, even if it waits several times. */
const WAIT_MS = 2_000;

const { gateway, services, listingId, send, create, rawCreate } = await startHolderGateway({
  DATABASE_POOL_SIZE: 1,
  DATABASE_CONNECT_TIMEOUT_MS: WAIT_MS,
  DATABASE_STATEMENT_TIMEOUT_MS: WAIT_MS,
  DATABASE_LOCK_TIMEOUT_MS: WAIT_MS - 100,
});

test("a request that waits for a connection and then for a lock gets 503 within the longest single wait, and is not executed later", async () => {
  expect((await send({ path: "/v1/listings" })).status).toBe(200);
  const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
  const began = performance.now();
  // One waits for the lock, the other for the only connection and then for the lock.
  const bodies = [uniqueStay(listingId), uniqueStay(listingId)];
  const answers = await Promise.all(bodies.map((body) => create(body)));
  const took = performance.now() - began;
  for (const answer of answers) {
    expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
    expect(answer.headers["retry-after"]).toMatch(/^[123]$/);
  }
  expect(took, "milliseconds of both").toBeLessThan(2 * WAIT_MS - 500);
  await lock.rollback();
  // The connection is still usable, and neither create is a replay.
  for (const body of bodies) {
    const retry = await create(body);
    expect([retry.status, retry.headers["idempotent-replayed"]]).toEqual([201, undefined]);
  }
  expect(await gateway.countRows("forms")).toBe(2);
});

test("the deadline covers the time before and after the body together", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const onTimeout = vi.fn();
  const deadline = new Deadline(1_000, onTimeout);
  deadline.start();
  vi.advanceTimersByTime(600);
  deadline.pause();
  vi.advanceTimersByTime(5_000);
  deadline.start();
  vi.advanceTimersByTime(399);
  expect(onTimeout).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(onTimeout).toHaveBeenCalledOnce();
});

test("the time a client takes to send the body does not count toward the deadline", async () => {
  const { head, body } = rawCreate();
  const wire = await gateway.openConnection();
  wire.write(head + body.slice(0, 10));
  await new Promise((resolve) => setTimeout(resolve, WAIT_MS + 500));
  wire.write(body.slice(10));
  expect((await wire.readResponse("POST", "/v1/forms")).status).toBe(201);
  wire.close();
});

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
