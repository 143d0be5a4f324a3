import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import {
  FINITE_FIELD,
  HOSTILE,
  LOCALHOST_PEM,
  openHostileReceiver,
  POST_MODULE,
  type Serve,
} from "../support/hostile-receivers.js";
import { spawnNode } from "../support/processes.js";

const SCRIPT = join(packageRoot(), "test/support/post-webhooks.mjs");
const MAX_LAG_MS = 50;

/** Sends 32 deliveries at a time from another process: 8 endpoints of an owner get as many. */
async function measure(url: string, perSecond: number) {
  const task = { module: POST_MODULE, url, concurrency: 32, perSecond, seconds: 2 };
  const env = { NODE_EXTRA_CA_CERTS: LOCALHOST_PEM };
  const { stdout, stderr } = await spawnNode([SCRIPT, JSON.stringify(task)], { env }).done;
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

describe("32 deliveries at a time, up to 10 per second each, hold up the event loop for less than 50 ms, if the receiver sends", () => {
  test.each(Object.entries(HOSTILE))("%s", async (_, serve) => {
    expect((await measure(await openHostileReceiver(serve), 10)).lagMs).toBeLessThan(MAX_LAG_MS);
  });
});

describe("32 deliveries at a time over TLS, up to 2 per second each, hold up the event loop for less than 50 ms, if the receiver sends", () => {
  const renegotiate: Serve = (socket) => void (socket as TLSSocket).renegotiate({}, () => renegotiate(socket));
  const byBytes: Serve = (socket) => {
    const timer = setInterval(() => socket.write("x"), 1);
    socket.once("close", () => clearInterval(timer));
  };

  test.each([
    ["100 Continue without end", HOSTILE["100 Continue without end"], {}],
    ["chunks of 1 byte without end", HOSTILE["chunks of 1 byte without end"], {}],
    ["records of 1 byte", byBytes, {}],
    ["requests to renegotiate", renegotiate, { maxVersion: "TLSv1.2" }],
    ["parameters of Diffie-Hellman in a finite field", renegotiate, FINITE_FIELD],
  ] as const)("%s", async (_, serve, tls) => {
    const url = await openHostileReceiver(serve ?? expect.fail(), tls);
    expect((await measure(url, 2)).lagMs).toBeLessThan(MAX_LAG_MS);
  });
});
