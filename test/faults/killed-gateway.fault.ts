import { Agent } from "node:http";
import { setImmediate as nextEventLoopTurn } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { LONG_DATABASE_TIMEOUTS } from "../support/database.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
  startGatewayProcesses,
} from "../support/gateway-processes.js";
import { ignoreBrokenConnection, type TimedResponse } from "../support/http-client.js";
import { median } from "../support/statistics.js";
import { CreatePhaseProxy, type Phase } from "./create-phase-proxy.js";
import { expectExactlyOneForm, isReplay, sendCreate, uniqueCreate } from "./creates.js";
import { expectOneEmailPerForm } from "./emails.js";
import { scaleRounds } from "./rounds.js";

const ROUNDS = scaleRounds(50, 6);
const MEASURED_CREATES = 20;

let fixture: Fixture;
let survivors: GatewayProcess[];
/** Ids of the forms that clients know. */
const acknowledged = new Set<string>();

/** Asserts a 201 and records its form. */
function recordAcknowledged({ status, json }: TimedResponse): void {
  expect(status).toBe(201);
  acknowledged.add((json as FormV1).id);
}

beforeAll(async () => {
  fixture = await makeFixture(undefined, LONG_DATABASE_TIMEOUTS);
  survivors = await startGatewayProcesses(2, fixture.env);
});

/** A warmed-up gateway to kill, and the proxy between it and the database. */
interface Victim {
  gateway: GatewayProcess;
  proxy: CreatePhaseProxy;
  agent: Agent;
}

async function startVictim(): Promise<Victim> {
  const proxy = await CreatePhaseProxy.start(fixture.services.db.url);
  const gateway = await startGatewayProcess({ ...fixture.env, DATABASE_URL: proxy.url });
  const victim = { gateway, proxy, agent: new Agent({ keepAlive: true, maxSockets: 1 }) };
  for (let n = 0; n < 3; n++) await timeCreate(victim);
  return victim;
}

/** Milliseconds from sending a create to its INSERT, its COMMIT, the end of the COMMIT, and the response. */
interface Times {
  write: number;
  commit: number;
  done: number;
  response: number;
}

async function timeCreate({ gateway, proxy, agent }: Victim): Promise<Times> {
  const at: Partial<Record<Phase, number>> = {};
  proxy.reset();
  proxy.onPhase = (phase) => {
    at[phase] = performance.now();
  };
  const response = await sendCreate(fixture, gateway, uniqueCreate(fixture, { hasKey: true }), agent);
  recordAcknowledged(response);
  const { sentAt, receivedAt } = response;
  const since = (time = Number.NaN) => time - sentAt;
  return {
    write: since(at["during the write"]),
    commit: since(at["during the commit"]),
    done: since(at["after the commit"]),
    response: since(receivedAt),
  };
}

async function measure(victim: Victim): Promise<Times> {
  const times: Times[] = [];
  for (let create = 0; create < MEASURED_CREATES; create++) times.push(await timeCreate(victim));
  const medianOf = (name: keyof Times) => median(times.map((one) => one[name]));
  const [write, commit, done, response] = (["write", "commit", "done", "response"] as const).map(medianOf);
  return { write, commit, done, response } as Times;
}

/** Progress of a create when its gateway was killed. */
const OUTCOMES = [
  "before the write",
  "during the write",
  "during the commit",
  "after the commit",
  "response received",
] as const satisfies (Phase | "response received")[];

/** When to kill the gateway: milliseconds after the create was sent, or after it entered a phase. */
interface KillTime {
  since: Phase | "sending";
  ms: number;
}

/**
 * Half of the rounds kill relative to a phase, because a short phase is hard to hit by time alone. The first of them
 * kill as soon as the phase begins.
 */
function killTimeOf(round: number, typical: Times): KillTime {
  const fraction = round < 6 ? 0 : Math.random();
  if (round % 6 === 0) return { since: "during the write", ms: fraction * (typical.commit - typical.write) };
  if (round % 6 === 2) return { since: "during the commit", ms: fraction * (typical.done - typical.commit) };
  if (round % 6 === 4) return { since: "after the commit", ms: fraction * (typical.response - typical.done) };
  return { since: "sending", ms: ((round + Math.random()) / ROUNDS) * typical.response * 1.2 };
}

const WAIT_TIMEOUT_MS = 20_000;

/** Kills the gateway at the given time. Returns the phase that the create was in. */
async function killAt({ since, ms }: KillTime, { gateway, proxy }: Victim): Promise<Phase> {
  const sent = performance.now();
  let from = since === "sending" ? sent : Number.POSITIVE_INFINITY;
  let phase: Phase | undefined;
  const kill = () => {
    phase = proxy.phase;
    process.kill(gateway.process.pid, "SIGKILL");
    proxy.loseCommit();
  };
  proxy.onPhase = (entered) => {
    if (entered !== since) return;
    from = performance.now();
    if (ms === 0) kill();
  };
  // Busy-waits, because timers are too coarse for a create of a few milliseconds.
  for (; !phase; await nextEventLoopTurn()) {
    if (performance.now() >= from + ms) kill();
    else if (performance.now() > sent + WAIT_TIMEOUT_MS)
      throw new Error(`The create never entered the phase: ${since}.`);
  }
  return phase;
}

it("a create whose gateway is killed at a random moment and that is retried on another gateway makes exactly one form and sends exactly one email", async () => {
  let next = startVictim();
  const typical = await measure(await next);
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0])) as Record<
    (typeof OUTCOMES)[number],
    number
  >;
  let replays = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const victim = await next;
    const create = uniqueCreate(fixture, { hasKey: round % 2 === 0 });
    victim.proxy.reset();
    const firstAttempt = sendCreate(fixture, victim.gateway, create, victim.agent).catch(
      ignoreBrokenConnection,
    );
    const phase = await killAt(killTimeOf(round, typical), victim);
    const retried = sendCreate(fixture, survivors[0] as GatewayProcess, create);
    const [first, retry]: [TimedResponse | undefined, TimedResponse] = await Promise.all([
      firstAttempt,
      retried,
    ]);
    await victim.gateway.process.done;
    victim.agent.destroy();
    const again = await sendCreate(fixture, survivors[1] as GatewayProcess, create);
    recordAcknowledged(retry);
    expect([again.status, isReplay(again)]).toEqual([201, true]);
    expect(again.json).toEqual(retry.json);
    if (first) expect([first.status, first.json]).toEqual([201, retry.json]);
    const isCommitSent = phase === "during the commit" || phase === "after the commit";
    expect(isReplay(retry), `the retry replays, after a kill ${phase}`).toBe(isCommitSent);
    await expectExactlyOneForm(fixture, create, retry);
    counts[first ? "response received" : phase]++;
    replays += Number(isReplay(retry));
    if (round + 1 < ROUNDS) next = startVictim();
  }
  const { write, commit, done, response } = typical;
  console.info(
    `gateway killed at random moments of a create (INSERT sent after ${write.toFixed(1)} ms, COMMIT after ` +
      `${commit.toFixed(1)} ms, done after ${done.toFixed(1)} ms, response after ${response.toFixed(1)} ms): ${ROUNDS} ` +
      `rounds; ${OUTCOMES.map((outcome) => `${outcome} ${counts[outcome]}`).join(", ")}; ${replays} retries replayed, one form each`,
  );
  expect(counts["before the write"], "kills before the write").toBeGreaterThan(0);
  expect(counts["during the write"], "kills during the write").toBeGreaterThan(0);
  expect(counts["during the commit"], "kills during the commit").toBeGreaterThan(0);
  expect(counts["after the commit"] + counts["response received"], "kills after the commit").toBeGreaterThan(
    0,
  );
  expect(acknowledged.size).toBeGreaterThan(ROUNDS + MEASURED_CREATES);
  await expectOneEmailPerForm(fixture, acknowledged);
});
