import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { type Host, startHost, type World } from "../fleet/fleet.js";
import { type RunningProcess, spawnCli } from "../harness.js";
import { type MailServer, mailEnv, openMailServer } from "../server/mail-server.js";
import { newCreate, send } from "./creates.js";
import { expectedMessages, hasJobs, messageIdOf } from "./messages.js";
import { makePatientWorld } from "./patient-world.js";
import { rounds } from "./rounds.js";
import { type Lengths, type Moment, SmtpTrap } from "./smtp-trap.js";

const ROUNDS = rounds(20, 4);
/** Workers killed one after the other before the jobs of all are waited for. */
const WAVE = 5;
const TAKEN_OVER_MS = 60_000;
const LATEST_MS = 8;

const STAGES = ["before DATA", "in DATA", "250 on its way", "250 received"] as const;

/** A notification whose worker was killed while sending it. */
interface Kill {
  messageId: string;
  stage: Moment["stage"];
  at: number;
}

let world: World;
let gateway: Host;

beforeAll(async () => {
  world = await makePatientWorld();
  gateway = await startHost(world.env);
});

async function startWorker(office: MailServer): Promise<{ process: RunningProcess; trap: SmtpTrap }> {
  const trap = await SmtpTrap.lay(office.port);
  const env = { ...world.env, ...mailEnv(trap.url), WORKER_CONCURRENCY: "1" };
  const process = spawnCli(["worker"], { env });
  await process.waitForLine(/^Sending notifications/, 60_000);
  return { process, trap };
}

/** Each stage in turn, at a random place in it. */
function momentOf(round: number): Moment {
  const chance = Math.random();
  switch (round % 4) {
    case 0:
      return { stage: "250 on its way" };
    case 1:
      return { stage: "in DATA", share: chance };
    case 2:
      return { stage: "250 received", ms: chance * LATEST_MS };
    default:
      return { stage: "before DATA", share: chance };
  }
}

async function createForm(): Promise<string> {
  const { status, json } = await send(world, gateway, newCreate(world, { keyed: true }));
  expect(status).toBe(201);
  return messageIdOf((json as FormV1).id);
}

const settled = () => expect.poll(() => hasJobs(world), { timeout: 120_000, interval: 50 }).toBe(false);

/** Starts workers and kills each in the dialogue of a message of its own, the survivor looking away meanwhile. */
async function killWave(from: number, office: MailServer, survivor: RunningProcess, lengths: Lengths) {
  const size = Math.min(WAVE, ROUNDS - from);
  const victims = await Promise.all(Array.from({ length: size }, () => startWorker(office)));
  const kills: Kill[] = [];
  let messageId = "";
  for (const [at, { process: victim, trap }] of victims.entries()) {
    const moment = momentOf(from + at);
    trap.arm(moment, lengths, () => {
      process.kill(victim.pid, "SIGKILL");
      kills.push({ messageId, stage: moment.stage, at: performance.now() });
    });
  }
  for (let killed = 1; killed <= size; killed++) {
    // Too shortly to be taken for dead.
    process.kill(survivor.pid, "SIGSTOP");
    messageId = await createForm();
    await expect.poll(() => kills.length, { timeout: 30_000, interval: 10 }).toBe(killed);
    process.kill(survivor.pid, "SIGCONT");
  }
  await Promise.all(victims.map(({ process: victim }) => victim.done));
  return kills;
}

it("a worker killed in mid-send loses no message, and repeats one only where its receiver had taken it", async () => {
  const office = await openMailServer();
  const survivor = await startWorker(office);
  await createForm();
  await settled();
  const { lengths } = survivor.trap;
  const kills: Kill[] = [];
  while (kills.length < ROUNDS) {
    kills.push(...(await killWave(kills.length, office, survivor.process, lengths)));
    await settled();
  }
  const ids = office.received.map(({ mail }) => mail.messageId ?? "");
  expect([...new Set(ids)].sort(), "each message, and no foreign one").toEqual(await expectedMessages(world));
  const arrivals = (id: string) => ids.filter((one) => one === id).length;
  const inStage = (wanted: Kill["stage"]) => kills.filter(({ stage }) => stage === wanted);
  const repeated = (stage: Kill["stage"]) =>
    inStage(stage).filter(({ messageId }) => arrivals(messageId) > 1).length;
  const delays = kills.flatMap(({ messageId, at }) => {
    const next = survivor.trap.seen.find((one) => one.messageId === messageId && one.at > at);
    return next ? [next.at - at] : [];
  });
  const figures = STAGES.map((one) => `${one} ${inStage(one).length} (${repeated(one)} repeated)`);
  console.info(
    `worker killed in mid-send: ${ROUNDS} rounds: ${figures.join(", ")}; ${kills.length} messages, each arrived; ` +
      `${delays.length} jobs taken over, after ${(Math.max(...delays) / 1000).toFixed(1)} s at most`,
  );
  // Taken once, and again by the receiver of the second attempt; else once.
  for (const { messageId, stage } of kills) {
    const most = stage.startsWith("250") ? 2 : 1;
    expect(arrivals(messageId), `arrivals of a message whose worker was killed ${stage}`).toBeLessThanOrEqual(
      most,
    );
  }
  expect(repeated("250 on its way"), "killed before the 250 reached it").toBe(
    inStage("250 on its way").length,
  );
  expect(ids.length, "messages of workers that lived, once each").toBe(
    1 + kills.length + repeated("250 on its way") + repeated("250 received"),
  );
  // Of those that were given the 250, some had time to write down that the job was done.
  expect(delays.length).toBeGreaterThanOrEqual(ROUNDS - inStage("250 received").length);
  expect(Math.max(...delays), "milliseconds from a kill to the next attempt").toBeLessThan(TAKEN_OVER_MS);
});
