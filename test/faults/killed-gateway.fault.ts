import { Agent } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { Answer } from "../fleet/client.js";
import { type Host, startHost, startHosts, type World } from "../fleet/fleet.js";
import { expectOneForm, isReplay, newCreate, send } from "./creates.js";
import { expectOneMessageEach } from "./messages.js";
import { makePatientWorld } from "./patient-world.js";
import { rounds } from "./rounds.js";
import { type Phase, Tap } from "./tap.js";

const ROUNDS = rounds(50, 6);
const MEASURED = 20;

let world: World;
let survivors: Host[];

beforeAll(async () => {
  world = await makePatientWorld();
  survivors = await startHosts(2, world.env);
});

/** A gateway to be killed, warm, with its way to the database. */
interface Victim {
  host: Host;
  tap: Tap;
  agent: Agent;
}

async function startVictim(): Promise<Victim> {
  const tap = await Tap.lay(world.services.db.url);
  const host = await startHost({ ...world.env, DATABASE_URL: tap.url });
  const victim = { host, tap, agent: new Agent({ keepAlive: true, maxSockets: 1 }) };
  for (let warming = 0; warming < 3; warming++) await timeCreate(victim);
  return victim;
}

/** Milliseconds from a create's sending until its INSERT and its COMMIT are sent, that is done, and it is answered. */
interface Times {
  write: number;
  commit: number;
  done: number;
  answer: number;
}

async function timeCreate({ host, tap, agent }: Victim): Promise<Times> {
  const at: Partial<Record<Phase, number>> = {};
  tap.reset();
  tap.onPhase = (phase) => {
    at[phase] = performance.now();
  };
  const { sentAt, cameAt, status } = await send(world, host, newCreate(world, { keyed: true }), agent);
  expect(status).toBe(201);
  const since = (time = Number.NaN) => time - sentAt;
  return {
    write: since(at["during the write"]),
    commit: since(at["during the commit"]),
    done: since(at["after the commit"]),
    answer: since(cameAt),
  };
}

const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

async function measure(victim: Victim): Promise<Times> {
  const times: Times[] = [];
  for (let create = 0; create < MEASURED; create++) times.push(await timeCreate(victim));
  const usual = (name: keyof Times) => median(times.map((one) => one[name]));
  return { write: usual("write"), commit: usual("commit"), done: usual("done"), answer: usual("answer") };
}

/** How far a create that was cut short had come. */
const ENDS = [
  "before the write",
  "during the write",
  "during the commit",
  "after the commit",
  "answered",
] as const satisfies (Phase | "answered")[];

/** When to kill: milliseconds after the create was sent, or was seen to enter a phase. */
interface Moment {
  since: Phase | "sending";
  ms: number;
}

/** Half of the rounds by what is seen, first at once: a phase may be too short to be met by the clock alone. */
function momentOf(round: number, usual: Times): Moment {
  const chance = round < 6 ? 0 : Math.random();
  if (round % 6 === 0) return { since: "during the write", ms: chance * (usual.commit - usual.write) };
  if (round % 6 === 2) return { since: "during the commit", ms: chance * (usual.done - usual.commit) };
  if (round % 6 === 4) return { since: "after the commit", ms: chance * (usual.answer - usual.done) };
  return { since: "sending", ms: ((round + Math.random()) / ROUNDS) * usual.answer * 1.2 };
}

const PATIENCE_MS = 20_000;

/** Kills at that moment, and tells how far the create had come. */
async function killAt({ since, ms }: Moment, { host, tap }: Victim): Promise<Phase> {
  const sent = performance.now();
  let from = since === "sending" ? sent : Number.POSITIVE_INFINITY;
  let phase: Phase | undefined;
  const kill = () => {
    phase = tap.phase;
    process.kill(host.process.pid, "SIGKILL");
  };
  tap.onPhase = (entered) => {
    if (entered !== since) return;
    from = performance.now();
    if (ms === 0) kill();
  };
  // Timers are too coarse for what takes a few milliseconds in all.
  for (; !phase; await turn()) {
    if (performance.now() >= from + ms) kill();
    else if (performance.now() > sent + PATIENCE_MS) throw new Error(`The create was never seen ${since}.`);
  }
  return phase;
}

it("a create whose gateway is killed at a random moment, retried elsewhere, makes one form", async () => {
  let next = startVictim();
  const usual = await measure(await next);
  const counts = Object.fromEntries(ENDS.map((end) => [end, 0])) as Record<(typeof ENDS)[number], number>;
  let replays = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const victim = await next;
    const create = newCreate(world, { keyed: round % 2 === 0 });
    victim.tap.reset();
    const attempt = send(world, victim.host, create, victim.agent).catch(() => undefined);
    const phase = await killAt(momentOf(round, usual), victim);
    const retried = send(world, survivors[0] as Host, create);
    const [first, retry]: [Answer | undefined, Answer] = await Promise.all([attempt, retried]);
    await victim.host.process.done;
    victim.agent.destroy();
    const again = await send(world, survivors[1] as Host, create);
    expect([retry.status, again.status, isReplay(again)]).toEqual([201, 201, true]);
    expect(again.json).toEqual(retry.json);
    if (first) expect([first.status, first.json]).toEqual([201, retry.json]);
    if (phase === "after the commit") expect(isReplay(retry), "a retry after the commit replays").toBe(true);
    await expectOneForm(world, create, retry);
    counts[first ? "answered" : phase]++;
    replays += Number(isReplay(retry));
    if (round + 1 < ROUNDS) next = startVictim();
  }
  const { write, commit, done, answer } = usual;
  console.info(
    `gateway killed at random moments of a create (INSERT sent after ${write.toFixed(1)} ms, COMMIT after ` +
      `${commit.toFixed(1)} ms, done after ${done.toFixed(1)} ms, answered after ${answer.toFixed(1)} ms): ${ROUNDS} ` +
      `rounds; ${ENDS.map((end) => `${end} ${counts[end]}`).join(", ")}; ${replays} retries replayed, one form each`,
  );
  expect(counts["before the write"], "kills before the write").toBeGreaterThan(0);
  expect(counts["during the commit"], "kills during the commit").toBeGreaterThan(0);
  expect(counts["after the commit"] + counts.answered, "kills after the commit").toBeGreaterThan(0);
});

it("each of these forms' guests gets one message", async () => {
  const messages = await expectOneMessageEach(world);
  console.info(`messages of the creates whose gateway was killed: ${messages} forms, ${messages} messages`);
});
