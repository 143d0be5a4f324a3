import { join } from "node:path";
import type { TLSSocket, TlsOptions } from "node:tls";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import {
  CLOSED,
  FINITE_FIELD,
  HOSTILE,
  LOCALHOST_PEM,
  openHostileReceiver,
  POST_MODULE,
  type Serve,
  TOO_MUCH,
} from "../support/hostile-receivers.js";
import { spawnNode } from "../support/processes.js";

const SCRIPT = join(packageRoot(), "test/support/post-webhooks.mjs");
const CONCURRENCY = 32;
const MAX_LAG_MS = 50;

const hostile = (name: string) => HOSTILE[name] ?? expect.fail();

/** Sends 32 deliveries at a time from another process: 8 endpoints of an owner get as many. */
async function measure(url: string, perSecond: number) {
  const task = { module: POST_MODULE, url, concurrency: CONCURRENCY, perSecond, seconds: 2 };
  const env = { NODE_EXTRA_CA_CERTS: LOCALHOST_PEM };
  const { stdout, stderr } = await spawnNode([SCRIPT, JSON.stringify(task)], { env }).done;
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

/** Deliveries must all end with this outcome. Null: all that were begun must be in progress. */
async function checkMode(outcome: string | null, serve: Serve, perSecond: number, tls?: TlsOptions) {
  let connections = 0;
  const url = await openHostileReceiver((socket) => {
    connections++;
    serve(socket);
  }, tls);
  const { lagMs, outcomes } = await measure(url, perSecond);
  console.info(`lag at most ${lagMs.toFixed(1)} ms, outcomes ${JSON.stringify(outcomes)}`);
  expect(Object.keys(outcomes)).toEqual(outcome === null ? [] : [outcome]);
  if (outcome === null) expect(connections).toBe(CONCURRENCY);
  expect(lagMs).toBeLessThan(MAX_LAG_MS);
}

describe("32 deliveries at a time, up to 10 per second each, hold up the event loop for less than 50 ms, if the receiver sends", () => {
  test.each(Object.entries(HOSTILE))("%s", async (_, [outcome, serve]) => {
    await checkMode(outcome, serve, 10);
  });
});

describe("32 deliveries at a time over TLS, up to 2 per second each, hold up the event loop for less than 50 ms, if the receiver sends", () => {
  const renegotiate: Serve = (socket) => void (socket as TLSSocket).renegotiate({}, () => renegotiate(socket));
  const byBytes: Serve = (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nX: ");
    const timer = setInterval(() => socket.write("x"), 1);
    socket.once("close", () => clearInterval(timer));
  };

  test.each<[string, string | null, Serve, TlsOptions]>([
    ["100 Continue without end", ...hostile("100 Continue without end"), {}],
    ["chunks of 1 byte without end", ...hostile("chunks of 1 byte without end"), {}],
    ["records of 1 byte", TOO_MUCH, byBytes, {}],
    ["requests to renegotiate", CLOSED, renegotiate, { maxVersion: "TLSv1.2" }],
    ["parameters of Diffie-Hellman in a finite field", "the request failed: EPROTO", renegotiate, FINITE_FIELD],
  ])("%s", async (_, outcome, serve, tls) => {
    await checkMode(outcome, serve, 2, tls);
  });
});
