import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { makeForm } from "../support/factories.js";
import {
  countLogLines,
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../support/gateway-processes.js";
import { countOutcomes, sendRequest, singleConnectionAgent, startLoad } from "../support/http-client.js";
import { freePort } from "../support/network.js";
import { isAlive, runCli, spawnCli } from "../support/processes.js";
import { uniqueStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";

let fixture: Fixture;
beforeAll(async () => {
  fixture = await makeFixture();
});

async function startWorkers(count: number, env: Record<string, string> = {}): Promise<GatewayProcess> {
  const gateway = await startGatewayProcess({ ...fixture.env, ...env }, ["--workers", String(count)]);
  // Workers log to stderr, the command prints to stdout, so the log may lag.
  await expect.poll(() => workersOf(gateway).length).toBe(count);
  return gateway;
}

/** Returns the process ids of the listening workers, oldest first. */
function workersOf({ process }: GatewayProcess): number[] {
  const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(process.pid)], { encoding: "utf8" });
  const pids = children.split("\n").map(Number);
  return parseLog(process.stderr)
    .filter(({ msg, pid }) => msg === "listening" && pids.includes(Number(pid)))
    .map(({ pid }) => Number(pid));
}

const parseLog = (text: string): Record<string, unknown>[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));

const sendSignal = (gateway: GatewayProcess, signal: NodeJS.Signals) =>
  process.kill(gateway.process.pid, signal);

const listListings = ({ url }: GatewayProcess, agent = singleConnectionAgent()) =>
  sendRequest(`${url}/v1/listings?limit=1`, fixture.key.key, { agent });

it("SIGHUP replaces every worker under load without failing a request on a keep-alive connection", async () => {
  const gateway = await startWorkers(2);
  const oldWorkers = workersOf(gateway);
  const agents = Array.from({ length: 16 }, singleConnectionAgent);
  const load = startLoad(agents.length, (client) => {
    const agent = agents[client];
    if (client % 4 > 0 || !agent) return listListings(gateway, agent);
    const body = uniqueStay(fixture.listing.id);
    return sendRequest(`${gateway.url}/v1/forms`, fixture.key.key, { method: "POST", body, agent });
  });
  for (let turn = 1; turn <= 2; turn++) {
    await sleep(500);
    sendSignal(gateway, "SIGHUP");
    await expect
      .poll(() => countLogLines(gateway, "all workers were replaced"), { timeout: 20_000 })
      .toBe(turn);
  }
  await sleep(500);
  await load.stop();
  console.info(`rolling restarts under load: ${JSON.stringify(countOutcomes(load))}`);
  expect(
    Object.keys(countOutcomes(load)).filter((outcome) => outcome !== "200" && outcome !== "201"),
  ).toEqual([]);
  const newWorkers = workersOf(gateway);
  expect(newWorkers).toHaveLength(2);
  expect(newWorkers.filter((pid) => oldWorkers.includes(pid))).toEqual([]);
});

it("a worker being replaced serves keep-alive connections with `Connection: close` and is not ready", async () => {
  const gateway = await startWorkers(1);
  const [first, second] = [singleConnectionAgent(), singleConnectionAgent()];
  const before = await Promise.all([listListings(gateway, first), listListings(gateway, second)]);
  expect(before.map(({ status, headers }) => [status, headers.connection])).toEqual(
    Array(2).fill([200, "keep-alive"]),
  );
  sendSignal(gateway, "SIGHUP");
  await expect.poll(() => workersOf(gateway).length, { timeout: 10_000 }).toBe(2);
  // The primary orders the old worker to drain only after the replacement reports that it listens.
  await expect
    .poll(async () => (await sendRequest(`${gateway.url}/readyz`, undefined, { agent: first })).status, {
      timeout: 200,
    })
    .toBe(503);
  const lastResponse = await listListings(gateway, second);
  expect([lastResponse.status, lastResponse.headers.connection]).toEqual([200, "close"]);
  expect((await sendRequest(`${gateway.url}/readyz`, undefined)).status, "the replacement").toBe(200);
  await expect.poll(() => workersOf(gateway).length).toBe(1);
});

it("a crashed worker is replaced while the other workers serve", async () => {
  const gateway = await startWorkers(2);
  const [victim = 0, other] = workersOf(gateway);
  process.kill(victim, "SIGKILL");
  for (let turn = 0; turn < 5; turn++) expect((await listListings(gateway)).status).toBe(200);
  await expect.poll(() => workersOf(gateway).length, { timeout: 10_000 }).toBe(2);
  expect(workersOf(gateway)).toContain(other);
  const crashes = parseLog(gateway.process.stderr).filter(({ msg }) => msg === "a worker exited");
  expect(crashes).toMatchObject([{ worker: victim, reason: "killed by SIGKILL", replacedInMs: 100 }]);
});

it("a worker that cannot start is retried with backoff and its reason is logged, and SIGHUP keeps the other workers running", async () => {
  const proxy = await TcpProxy.start(fixture.services.db.url);
  const gateway = await startWorkers(2, { DATABASE_URL: proxy.url });
  const [victim = 0, other] = workersOf(gateway);
  proxy.cut();
  process.kill(victim, "SIGKILL");
  const restartDelaysMs = () =>
    parseLog(gateway.process.stderr)
      .filter(({ msg }) => msg === "a worker exited")
      .map(({ replacedInMs }) => replacedInMs);
  await expect.poll(restartDelaysMs, { timeout: 20_000 }).toEqual([100, 200, 400]);
  const failures = parseLog(gateway.process.stderr).filter(({ msg }) => msg === "a worker exited");
  expect(failures.at(-1)?.reason).toMatch(/database at 127\.0\.0\.1:\d+ cannot be reached/);
  sendSignal(gateway, "SIGHUP");
  await expect
    .poll(() => countLogLines(gateway, "a replacement worker cannot start"), { timeout: 20_000 })
    .toBe(1);
  expect(workersOf(gateway)).toEqual([other]);
  proxy.restore();
  await expect.poll(() => workersOf(gateway).length, { timeout: 20_000 }).toBe(2);
  expect((await listListings(gateway)).status).toBe(200);
});

it("an invalid setting and a port in use make `serve --workers` exit with 1 and a message", async () => {
  const bad = await runCli(["serve", "--workers", "2"], { env: { ...fixture.env, DRAIN_SECONDS: "soon" } });
  expect([bad.code, bad.stderr]).toEqual([
    1,
    'error: DRAIN_SECONDS is "soon", but must be an integer from 0 to 600.\n',
  ]);
  const gateway = await startWorkers(1);
  const { port } = new URL(gateway.url);
  const taken = await runCli(["serve", "--workers", "2", "--port", port], { env: fixture.env });
  expect([taken.code, taken.stderr]).toEqual([
    1,
    `error: Port ${port} on 127.0.0.1 is in use: stop the process that listens there, or set PORT to another port.\n`,
  ]);
});

it.each(["SIGTERM", "SIGINT"] as const)(
  "%s lets every worker finish its requests in flight",
  async (signal) => {
    const gateway = await startWorkers(2);
    const lock = await fixture.services.db.pool.connect();
    const form = await makeForm(fixture.services, fixture.userId, fixture.listing.id);
    const agent = singleConnectionAgent();
    const put = { method: "PUT", body: uniqueStay(fixture.listing.id), agent };
    await lock.query("BEGIN");
    await lock.query("SELECT FROM forms WHERE id = $1::uuid FOR UPDATE", [form.id]);
    const updated = sendRequest(`${gateway.url}/v1/forms/${form.id}`, fixture.key.key, put);
    await sleep(300);
    sendSignal(gateway, signal);
    await sleep(300);
    await lock.query("COMMIT");
    lock.release();
    expect((await updated).status).toBe(200);
    const { code } = await gateway.process.done;
    expect(code).toBe(0);
    expect(countLogLines(gateway, '"msg":"stopped"')).toBe(2);
    await expect(listListings(gateway)).rejects.toThrow("ECONNREFUSED");
  },
);

it("a second SIGINT stops all workers immediately", async () => {
  const gateway = await startWorkers(2, { DRAIN_DELAY_SECONDS: "60" });
  const workers = workersOf(gateway);
  sendSignal(gateway, "SIGINT");
  await sleep(700);
  expect((await listListings(gateway)).status, "during the delay").toBe(200);
  sendSignal(gateway, "SIGINT");
  expect((await gateway.process.done).code).toBe(130);
  await expect.poll(() => workers.some(isAlive), { timeout: 5_000 }).toBe(false);
});

it("workers exit if their primary is killed", async () => {
  const port = await freePort();
  const primary = spawnCli(["serve", "--no-worker", "--workers", "2", "--port", String(port)], {
    env: fixture.env,
  });
  await primary.waitForLine(/^Listening on/);
  const workers = workersOf({ url: "", process: primary });
  expect(workers).toHaveLength(2);
  await primary.stop("SIGKILL");
  await expect.poll(() => workers.some(isAlive), { timeout: 5_000 }).toBe(false);
});
