import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { afterFile } from "../support/after-file.js";
import { asOperator, makeKey, makeUser, setRole, type TestKey } from "../support/factories.js";
import { type Load, sendRequest, startLoad } from "../support/http-client.js";
import { PostgresCluster, type ShutdownSignal } from "../support/postgres-cluster.js";
import { scale } from "../support/rounds.js";
import { startService } from "../support/service.js";

const ROUNDS = scale(2);
/** The promised time. */
const MAX_DELAY_MS = 1_000;
/** From the start of a round to the moment at which access ends: enough to prepare and to be accepted. */
const LEAD_SECONDS = 6;
const DOWN_FROM_MS = -600;
const WATCH_MS = 3_000;

const cluster = await PostgresCluster.create();
afterFile(() => cluster.remove());
const service = await startService(cluster.url);
const path = `/v1/listings/${service.fixture.listing.id}`;
const agent = new Agent({ keepAlive: true });
afterFile(() => agent.destroy());

/** A key that loses access, and what its holder then gets. */
interface Subject {
  what: string;
  refusal: 401 | 404;
  /** `performance.now()` at which access ends, at the latest. */
  endsAt: number;
  load: Load;
}

/** Up to 1 ms late: `Date.now()` is a whole millisecond, rounded down. */
const performanceTimeOf = (instant: string) => performance.now() + (Date.parse(instant) - Date.now());

/** Until the time is known, it is NaN. */
const watch = (what: string, { key }: TestKey, endsAt = Number.NaN): Subject => ({
  what,
  refusal: what === "membership" ? 404 : 401,
  endsAt,
  load: startLoad(2, (n) => sendRequest(service.gatewayUrl(n) + path, key, { agent }), 15),
});

async function startSubjects(): Promise<[Subject, ...Subject[]]> {
  const { services, userId, listing } = service.fixture;
  const { keys } = asOperator(services);
  const expiresAt = new Date(Date.now() + LEAD_SECONDS * 1_000).toISOString();
  const expiring = await makeKey(services, userId, { expiresAt });
  const graced = await makeKey(services, userId);
  const { replaces } = await keys.rotate({ id: graced.id, graceSeconds: LEAD_SECONDS });
  const { id: memberId } = await makeUser(services);
  await setRole(services, listing.id, memberId, "WRITER");
  const memberKey = await makeKey(services, memberId);
  const rotated = await makeKey(services, userId);
  const revoked = await makeKey(services, userId);
  const subjects: [Subject, ...Subject[]] = [
    watch("expired key", expiring, performanceTimeOf(expiresAt)),
    watch("grace period", graced, performanceTimeOf(replaces.expiresAt)),
    watch("membership", memberKey),
    watch("rotation without grace", rotated),
    watch("revocation", revoked),
  ];
  await sleepUntil(subjects[0].endsAt + DOWN_FROM_MS - 300);
  await Promise.all([
    setRole(services, listing.id, memberId, "NONE"),
    keys.rotate({ id: rotated.id, graceSeconds: 0 }),
    keys.revoke({ id: revoked.id }),
  ]);
  for (const subject of subjects.slice(2)) subject.endsAt = performance.now();
  return subjects;
}

const sleepUntil = (time: number) => sleep(Math.max(0, time - performance.now()));

/** Asserts what a client of this key saw. Returns the delay of the last request that was accepted after `endsAt`. */
function checkSubject({ what, refusal, endsAt, load }: Subject): number {
  const { responses, errors } = load;
  expect(errors, what).toEqual([]);
  const withStatus = (status: number) => responses.filter((response) => response.status === status);
  const accepted = withStatus(200);
  const delayMs = Math.max(0, ...accepted.map(({ sentAt }) => sentAt - endsAt));
  expect(delayMs, `${what}: ms to the last accepted request`).toBeLessThan(MAX_DELAY_MS);
  expect(responses.at(-1)?.status, `${what}: at the end`).toBe(refusal);
  expect(accepted.length, `${what}: accepted before`).toBeGreaterThan(0);
  expect(accepted.length + withStatus(refusal).length + withStatus(503).length, what).toBe(responses.length);
  const firstRefusalAt = withStatus(refusal)[0]?.receivedAt;
  if (what === "expired key" || what === "grace period")
    expect(firstRefusalAt, `${what}: refused too early`).toBeGreaterThan(endsAt - 1);
  return delayMs;
}

/** Stops and starts Postgres until this time. */
async function restartUntil(end: number, downMs: number): Promise<number> {
  const signals: ShutdownSignal[] = ["SIGQUIT", "SIGINT", "SIGKILL"];
  let restarts = 0;
  do {
    await cluster.stop(signals[restarts++ % 3] as ShutdownSignal);
    await sleep(downMs);
    await cluster.start();
    await sleep(200);
  } while (performance.now() < end);
  return restarts;
}

test.each([
  ["is down at that moment", 1_200],
  ["restarts again and again", 0],
])(
  "a key's revocation and expiry, the end of a rotation's grace period, a rotation without one and a removed membership take effect within 1 s also if Postgres %s: later responses are the refusal or 503",
  async (_, downMs) => {
    const delays: number[] = [];
    let restarts = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const subjects = await startSubjects();
      const [{ endsAt }] = subjects;
      await sleepUntil(endsAt + DOWN_FROM_MS * (downMs ? 1 : Math.random()));
      restarts += await restartUntil(downMs ? 0 : endsAt + MAX_DELAY_MS, downMs);
      await sleepUntil(endsAt + WATCH_MS);
      await Promise.all(subjects.map(({ load }) => load.stop()));
      delays.push(...subjects.map(checkSubject));
      const responses = subjects.flatMap(({ load }) => load.responses);
      expect(responses.filter(({ status }) => status === 503).length, "while down").toBeGreaterThan(0);
    }
    console.info(
      `${ROUNDS} rounds, ${restarts} restarts, last accepted request ${Math.max(...delays).toFixed()} ms after`,
    );
  },
);
