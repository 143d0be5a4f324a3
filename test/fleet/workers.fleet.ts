import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { makeForm } from "../factories.js";
import { freePort, runCli, spawnCli } from "../harness.js";
import { isAlive } from "../is-alive.js";
import { Cable } from "./cable.js";
import { call, newStay, oneConnection, startLoad, tally } from "./client.js";
import { type Host, linesWith, makeWorld, startHost, type World } from "./fleet.js";

let world: World;
beforeAll(async () => {
  world = await makeWorld();
});

async function startWorkers(count: number, env: Record<string, string> = {}): Promise<Host> {
  const host = await startHost({ ...world.env, ...env }, ["--workers", String(count)]);
  // What the workers log comes by another pipe than what the command prints.
  await expect.poll(() => workersOf(host).length).toBe(count);
  return host;
}

/** The process ids of the workers that listen, oldest first. */
function workersOf({ process }: Host): number[] {
  const living = execFileSync("ps", ["-o", "pid=", "--ppid", String(process.pid)], { encoding: "utf8" });
  const pids = living.split("\n").map(Number);
  return log(process.stderr)
    .filter(({ msg, pid }) => msg === "listening" && pids.includes(Number(pid)))
    .map(({ pid }) => Number(pid));
}

const log = (text: string): Record<string, unknown>[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));

const signalTo = (host: Host, signal: NodeJS.Signals) => process.kill(host.process.pid, signal);

const list = ({ url }: Host, agent = oneConnection()) =>
  call(`${url}/v1/listings?limit=1`, world.key.key, { agent });

it("SIGHUP replaces every worker under load, and no request fails on any kept connection", async () => {
  const host = await startWorkers(2);
  const old = workersOf(host);
  const agents = Array.from({ length: 16 }, oneConnection);
  const load = startLoad(agents.length, (client) => {
    const agent = agents[client];
    if (client % 4 > 0 || !agent) return list(host, agent);
    const body = newStay(world.listing.id);
    return call(`${host.url}/v1/forms`, world.key.key, { method: "POST", body, agent });
  });
  for (let turn = 1; turn <= 2; turn++) {
    await sleep(500);
    signalTo(host, "SIGHUP");
    await expect.poll(() => linesWith(host, "all workers were replaced"), { timeout: 20_000 }).toBe(turn);
  }
  await sleep(500);
  await load.stop();
  console.info(`rolling restarts under load: ${JSON.stringify(tally(load))}`);
  expect(Object.keys(tally(load)).filter((what) => what !== "200" && what !== "201")).toEqual([]);
  const now = workersOf(host);
  expect(now).toHaveLength(2);
  expect(now.filter((pid) => old.includes(pid))).toEqual([]);
});

it("a worker whose replacement listens serves what comes on kept connections, ending them, and is not ready", async () => {
  const host = await startWorkers(1);
  const [first, second] = [oneConnection(), oneConnection()];
  const before = await Promise.all([list(host, first), list(host, second)]);
  expect(before.map(({ status, headers }) => [status, headers.connection])).toEqual(
    Array(2).fill([200, "keep-alive"]),
  );
  signalTo(host, "SIGHUP");
  await expect.poll(() => workersOf(host).length, { timeout: 10_000 }).toBe(2);
  // The order to retire follows upon the replacement's report.
  await expect
    .poll(async () => (await call(`${host.url}/readyz`, undefined, { agent: first })).status, {
      timeout: 200,
    })
    .toBe(503);
  const kept = await list(host, second);
  expect([kept.status, kept.headers.connection]).toEqual([200, "close"]);
  expect((await call(`${host.url}/readyz`, undefined)).status, "the replacement").toBe(200);
  await expect.poll(() => workersOf(host).length).toBe(1);
});

it("a worker that crashes is replaced, while the others serve", async () => {
  const host = await startWorkers(2);
  const [victim = 0, other] = workersOf(host);
  process.kill(victim, "SIGKILL");
  for (let turn = 0; turn < 5; turn++) expect((await list(host)).status).toBe(200);
  await expect.poll(() => workersOf(host).length, { timeout: 10_000 }).toBe(2);
  expect(workersOf(host)).toContain(other);
  const said = log(host.process.stderr).filter(({ msg }) => msg === "a worker exited");
  expect(said).toMatchObject([{ worker: victim, reason: "killed by SIGKILL", replacedInMs: 100 }]);
});

it("a worker that cannot start is tried again ever more slowly, saying why, and SIGHUP leaves the others", async () => {
  const cable = await Cable.lay(world.services.db.url);
  const host = await startWorkers(2, { DATABASE_URL: cable.url });
  const [victim = 0, other] = workersOf(host);
  cable.cut();
  process.kill(victim, "SIGKILL");
  const pauses = () =>
    log(host.process.stderr)
      .filter(({ msg }) => msg === "a worker exited")
      .map(({ replacedInMs }) => replacedInMs);
  await expect.poll(pauses, { timeout: 20_000 }).toEqual([100, 200, 400]);
  const reasons = log(host.process.stderr).filter(({ msg }) => msg === "a worker exited");
  expect(reasons.at(-1)?.reason).toMatch(/database at 127\.0\.0\.1:\d+ cannot be reached/);
  signalTo(host, "SIGHUP");
  await expect.poll(() => linesWith(host, "a replacement cannot start"), { timeout: 20_000 }).toBe(1);
  expect(workersOf(host)).toEqual([other]);
  cable.mend();
  await expect.poll(() => workersOf(host).length, { timeout: 20_000 }).toBe(2);
  expect((await list(host)).status).toBe(200);
});

it("settings are refused before any worker starts, and a port that is taken ends the command", async () => {
  const bad = await runCli(["serve", "--workers", "2"], { env: { ...world.env, DRAIN_SECONDS: "soon" } });
  expect([bad.code, bad.stderr]).toEqual([
    1,
    'error: DRAIN_SECONDS is "soon", but must be an integer from 0 to 600.\n',
  ]);
  const host = await startWorkers(1);
  const { port } = new URL(host.url);
  const taken = await runCli(["serve", "--workers", "2", "--port", port], { env: world.env });
  expect([taken.code, taken.stderr]).toEqual([
    1,
    `error: Port ${port} on 127.0.0.1 is in use: stop the process that listens there, or set PORT to another port.\n`,
  ]);
});

it.each(["SIGTERM", "SIGINT"] as const)("%s lets every worker finish what it has begun", async (signal) => {
  const host = await startWorkers(2);
  const lock = await world.services.db.pool.connect();
  const form = await makeForm(world.services, world.userId, world.listing.id);
  const agent = oneConnection();
  const put = { method: "PUT", body: newStay(world.listing.id), agent };
  await lock.query("BEGIN");
  await lock.query("SELECT FROM forms WHERE id = $1::uuid FOR UPDATE", [form.id]);
  const updated = call(`${host.url}/v1/forms/${form.id}`, world.key.key, put);
  await sleep(300);
  signalTo(host, signal);
  await sleep(300);
  await lock.query("COMMIT");
  lock.release();
  expect((await updated).status).toBe(200);
  const { code } = await host.process.done;
  expect(code).toBe(0);
  expect(linesWith(host, '"msg":"stopped"')).toBe(2);
  await expect(list(host)).rejects.toThrow("ECONNREFUSED");
});

it("a second SIGINT ends all workers at once", async () => {
  const host = await startWorkers(2, { DRAIN_DELAY_SECONDS: "60" });
  const workers = workersOf(host);
  signalTo(host, "SIGINT");
  await sleep(700);
  expect((await list(host)).status, "during the delay").toBe(200);
  signalTo(host, "SIGINT");
  expect((await host.process.done).code).toBe(130);
  await expect.poll(() => workers.some(isAlive), { timeout: 5_000 }).toBe(false);
});

it("workers end with a primary that is killed", async () => {
  const port = await freePort();
  const primary = spawnCli(["serve", "--no-worker", "--workers", "2", "--port", String(port)], {
    env: world.env,
  });
  await primary.waitForLine(/^Listening on/);
  const workers = workersOf({ url: "", process: primary });
  expect(workers).toHaveLength(2);
  await primary.stop("SIGKILL");
  await expect.poll(() => workers.some(isAlive), { timeout: 5_000 }).toBe(false);
});
