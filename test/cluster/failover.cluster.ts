import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { findViolations } from "../support/acknowledged.js";
import { afterFile } from "../support/after-file.js";
import { slowestMs } from "../support/http-client.js";
import { scale } from "../support/rounds.js";
import { expectResponsesInTime, firstSuccess, startPostgresService } from "../support/service.js";
import { seededRandom } from "../support/statistics.js";
import { countStatuses, Traffic } from "../support/traffic.js";
import { ReplicatedPostgres } from "./replicated-postgres.js";

const ROUNDS = scale(2);
const PER_SECOND = 60;
/** Time under load before each failure. */
const BEFORE_MS = 1_000;
const MAX_RECOVERY_MS = 2_000;

it("with a synchronous standby behind HAProxy, killing the primary under mixed load and promoting the standby loses or duplicates no acknowledged form, exits no process, fails requests only with 503 and Retry-After, and every gateway writes again within 2 s of the promotion", async () => {
  const postgres = await ReplicatedPostgres.create();
  const service = await startPostgresService(postgres.url);
  const { fixture, gateways } = service;
  const mailServer = await service.startWorker();
  const traffic = new Traffic({
    urls: gateways.map(({ url }) => url),
    key: fixture.key.key,
    listingIds: [fixture.listing.id],
    perSecond: PER_SECOND,
    mix: { create: 40, repeat: 5, update: 15, list: 10, fetch: 20, listing: 10 },
    random: seededRandom(22),
  });
  afterFile(() => traffic.closeConnections());
  traffic.start();
  const recoveriesMs: number[] = [];
  const outagesMs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(BEFORE_MS);
    const killedAt = performance.now();
    await postgres.primary.kill();
    const promotedAt = await postgres.promoteStandby();
    /** When the last of the gateways accepted a write again. */
    const writingAt = () =>
      Math.max(...gateways.map((_, gateway) => firstSuccess(traffic, gateway, promotedAt, ["create", "update"])));
    await expect.poll(writingAt).toBeLessThan(Number.POSITIVE_INFINITY);
    recoveriesMs.push(writingAt() - promotedAt);
    outagesMs.push(writingAt() - killedAt);
    await postgres.rebuildStandby();
  }
  await sleep(BEFORE_MS);
  await traffic.stop();
  await traffic.retryUnacknowledged();
  const { samples, creates } = traffic;
  const { forms, violations } = await findViolations(postgres.url, creates);
  console.info(
    `${ROUNDS} failovers: ${JSON.stringify(countStatuses(samples))}, slowest ${slowestMs(samples).toFixed()} ms; ` +
      `${forms} forms of ${creates.length} creates`,
  );
  expect([...traffic.violations, ...violations]).toEqual([]);
  expectResponsesInTime(samples);
  console.info(
    `writes after the promotion: ${recoveriesMs.map(Math.round)} ms; after the kill: ${outagesMs.map(Math.round)} ms`,
  );
  expect(Math.max(...recoveriesMs), "ms from the promotion to a write by every gateway").toBeLessThan(MAX_RECOVERY_MS);
  expect(["200", "201", "503"]).toEqual(expect.arrayContaining(Object.keys(countStatuses(samples))));
  service.expectNoExits();
  await service.waitForEmails();
  expect(mailServer.received.length).toBeGreaterThan(0);
});
