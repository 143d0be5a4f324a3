import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { durationsOf, startConstantRateLoad } from "../support/constant-rate-load.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { residentBytes } from "../support/process-usage.js";
import { spawnNode } from "../support/processes.js";
import { quantile } from "../support/statistics.js";
import { makeTenant, warmUp } from "../support/tenants.js";

const FLOOD = join(packageRoot(), "test/support/pipeline-flood.mjs");
const MAX_P99_MS = 250;
const MAX_RSS_MB = 450;
const PER_SECOND = 50;
const BYTES_PER_SECOND = 4_000_000;
const SECONDS = 20;

const {
  services,
  key: { key },
  env,
} = await makeFixture(undefined, { NODE_OPTIONS: "--max-old-space-size=256" });

const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n`;

test.each([
  ["GET /v1/listings", "reads the responses", `${head("/v1/listings")}X-API-Key: ${key}\r\n\r\n`, true],
  ["GET /v1/listings", "never reads", `${head("/v1/listings")}X-API-Key: ${key}\r\n\r\n`, false],
  ["GET /docs without a key", "never reads", `${head("/docs")}\r\n`, false],
])(
  "8 connections that pipeline %s at 4 MB/s for 20 s, of a client that %s, leave the process with a heap of 256 MB alive, its memory bounded, and another key's p99 below 250 ms",
  async (_what, _reads, request, isReading) => {
    const { url, process } = await startGatewayProcess(env);
    const other = await makeTenant(services);
    await warmUp(url, [other]);
    const port = Number(new URL(url).port);
    const task = { port, request, connections: 8, bytesPerSecond: BYTES_PER_SECOND, seconds: SECONDS, isReading };
    let maxBytes = 0;
    const watch = setInterval(() => {
      maxBytes = Math.max(maxBytes, residentBytes(process.pid));
    }, 50);
    const load = startConstantRateLoad(PER_SECOND, () => other.send(url, "/v1/listings"));
    const { stdout, stderr } = await spawnNode([FLOOD, JSON.stringify(task)]).done;
    const { requests, outcomes } = await load.stop();
    clearInterval(watch);
    const p99 = quantile(durationsOf(requests), 0.99);
    const rssMb = maxBytes / 2 ** 20;
    console.info(`p99 of another key ${p99.toFixed()} ms, RSS at most ${rssMb.toFixed()} MB, flood: ${stdout.trim()}`);
    expect([stderr, process.hasExited]).toEqual(["", false]);
    expect(JSON.parse(stdout).sentBytes).toBeGreaterThan((BYTES_PER_SECOND * SECONDS) / 2);
    expect(Object.fromEntries(outcomes)).toEqual({ 200: requests.length });
    expect(rssMb).toBeLessThan(MAX_RSS_MB);
    expect(p99).toBeLessThan(MAX_P99_MS);
    await process.stop();
  },
);
