import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { LONG_DATABASE_TIMEOUTS } from "../support/database.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../support/gateway-processes.js";
import { type MailServer, mailEnv, openMailServer } from "../support/mail-server.js";
import { type RunningProcess, spawnCli } from "../support/processes.js";
import { sendCreate, uniqueCreate } from "./creates.js";
import { countPendingNotifications, messageIdOf } from "./emails.js";
import { scaleRounds } from "./rounds.js";
import { type KillPoint, type SessionBytes, SmtpKillProxy } from "./smtp-kill-proxy.js";

const ROUNDS = scaleRounds(20, 4);
/** Workers killed one after the other, before the test waits for all their notifications. */
const BATCH_SIZE = 5;
const MAX_TAKEOVER_MS = 60_000;
const MAX_KILL_DELAY_MS = 8;

const STAGES = ["before DATA", "during DATA", "before 250 received", "after 250 received"] as const;

/** A notification whose worker was killed while sending it. */
interface Kill {
  messageId: string;
  stage: KillPoint["stage"];
  at: number;
}

let fixture: Fixture;
let gateway: GatewayProcess;

beforeAll(async () => {
  fixture = await makeFixture(undefined, LONG_DATABASE_TIMEOUTS);
  gateway = await startGatewayProcess(fixture.env);
});

async function startWorker(
  mailServer: MailServer,
): Promise<{ process: RunningProcess; proxy: SmtpKillProxy }> {
  const proxy = await SmtpKillProxy.start(mailServer.port);
  const env = { ...fixture.env, ...mailEnv(proxy.url), WORKER_CONCURRENCY: "1" };
  const process = spawnCli(["worker"], { env });
  await process.waitForLine(/^Sending notifications/, 60_000);
  return { process, proxy };
}

/** The stages in turn, at a random point of each. */
function randomKillPoint(round: number): KillPoint {
  const fraction = Math.random();
  switch (round % 4) {
    case 0:
      return { stage: "before 250 received" };
    case 1:
      return { stage: "during DATA", fraction };
    case 2:
      return { stage: "after 250 received", delayMs: fraction * MAX_KILL_DELAY_MS };
    default:
      return { stage: "before DATA", fraction };
  }
}

/** Message-IDs of the emails that must arrive. */
const expectedIds: string[] = [];

async function createForm(): Promise<string> {
  const { status, json } = await sendCreate(fixture, gateway, uniqueCreate(fixture, { hasKey: true }));
  expect(status).toBe(201);
  const messageId = messageIdOf((json as FormV1).id);
  expectedIds.push(messageId);
  return messageId;
}

const waitForNotifications = () =>
  expect.poll(() => countPendingNotifications(fixture), { timeout: 120_000 }).toBe(0);

/** Starts workers and kills each while it sends one email; the surviving worker is suspended meanwhile. */
async function killWorkers(
  firstRound: number,
  mailServer: MailServer,
  survivor: RunningProcess,
  sessionBytes: SessionBytes,
) {
  const size = Math.min(BATCH_SIZE, ROUNDS - firstRound);
  const victims = await Promise.all(Array.from({ length: size }, () => startWorker(mailServer)));
  const kills: Kill[] = [];
  let messageId = "";
  for (const [index, { process: victim, proxy }] of victims.entries()) {
    const killPoint = randomKillPoint(firstRound + index);
    proxy.killInNextSession(killPoint, sessionBytes, () => {
      process.kill(victim.pid, "SIGKILL");
      kills.push({ messageId, stage: killPoint.stage, at: performance.now() });
    });
  }
  for (let killed = 1; killed <= size; killed++) {
    // Too short for it to count as a stale worker.
    process.kill(survivor.pid, "SIGSTOP");
    messageId = await createForm();
    await expect.poll(() => kills.length, { timeout: 30_000, interval: 10 }).toBe(killed);
    process.kill(survivor.pid, "SIGCONT");
  }
  await Promise.all(victims.map(({ process: victim }) => victim.done));
  return kills;
}

it("killing a worker while it sends loses no email, and repeats one only if the mail server had already accepted it", async () => {
  const mailServer = await openMailServer();
  const survivor = await startWorker(mailServer);
  await createForm();
  await waitForNotifications();
  const { sessionBytes } = survivor.proxy;
  const kills: Kill[] = [];
  while (kills.length < ROUNDS) {
    kills.push(...(await killWorkers(kills.length, mailServer, survivor.process, sessionBytes)));
    await waitForNotifications();
  }
  const ids = mailServer.received.map(({ mail }) => mail.messageId ?? "");
  expect([...new Set(ids)].sort(), "one email per form, and no others").toEqual(expectedIds.sort());
  const arrivals = (id: string) => ids.filter((one) => one === id).length;
  const killsIn = (wanted: Kill["stage"]) => kills.filter(({ stage }) => stage === wanted);
  const countRepeated = (stage: Kill["stage"]) =>
    killsIn(stage).filter(({ messageId }) => arrivals(messageId) > 1).length;
  const takeoverDelaysMs = kills.flatMap(({ messageId, at }) => {
    const next = survivor.proxy.seen.find((one) => one.messageId === messageId && one.at > at);
    return next ? [next.at - at] : [];
  });
  const figures = STAGES.map((one) => `${one} ${killsIn(one).length} (${countRepeated(one)} repeated)`);
  console.info(
    `worker killed while sending: ${ROUNDS} rounds: ${figures.join(", ")}; ${kills.length} emails, each arrived; ` +
      `${takeoverDelaysMs.length} notifications taken over, after at most ${(Math.max(...takeoverDelaysMs) / 1000).toFixed(1)} s`,
  );
  // Twice if the mail server had accepted the first attempt, otherwise once.
  for (const { messageId, stage } of kills) {
    const maxArrivals = stage.endsWith("250 received") ? 2 : 1;
    expect(arrivals(messageId), `emails of a form whose worker was killed ${stage}`).toBeLessThanOrEqual(
      maxArrivals,
    );
  }
  expect(countRepeated("before 250 received"), "emails repeated after a kill before the 250").toBe(
    killsIn("before 250 received").length,
  );
  expect(ids.length, "no other email is repeated").toBe(
    1 + kills.length + countRepeated("before 250 received") + countRepeated("after 250 received"),
  );
  // Workers killed after the 250 may have recorded the outcome, so their notifications need no takeover.
  expect(takeoverDelaysMs.length).toBeGreaterThanOrEqual(ROUNDS - killsIn("after 250 received").length);
  expect(Math.max(...takeoverDelaysMs), "ms from a kill to the next attempt").toBeLessThan(MAX_TAKEOVER_MS);
});
