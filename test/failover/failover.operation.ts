import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { PostgresService } from "../faults/postgres-service.js";
import { countStatuses } from "../faults/postgres-traffic.js";
import { scaleRounds } from "../faults/rounds.js";
import { ReplicatedPostgres } from "./replicated-postgres.js";

const ROUNDS = scaleRounds(10, 2);
const PER_SECOND = 60;
/** Time under load before each failure. */
const BEFORE_MS = 1_000;
const MAX_RECOVERY_MS = 2_000;

it("with a synchronous standby behind HAProxy, killing the primary under mixed load and promoting the standby loses or duplicates no acknowledged form, exits no process, fails requests only with 503 and Retry-After, and every gateway writes again within 2 s of the promotion", async () => {
  const postgres = await ReplicatedPostgres.create();
  const service = await PostgresService.startOn(postgres);
  const mailServer = await service.startWorker();
  const traffic = service.createTraffic({
    perSecond: PER_SECOND,
    mix: { create: 40, repeat: 5, update: 15, list: 10, fetch: 20, listing: 10 },
    seed: 22,
  });
  traffic.start();
  const recoveriesMs: number[] = [];
  const outagesMs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(BEFORE_MS);
    const killedAt = performance.now();
    await postgres.primary.kill();
    const promotedAt = await postgres.promoteStandby();
    const writingAt = await service.waitForSuccess(traffic, promotedAt, ["create", "update"]);
    recoveriesMs.push(writingAt - promotedAt);
    outagesMs.push(writingAt - killedAt);
    await postgres.rebuildStandby();
  }
  await sleep(BEFORE_MS);
  await service.expectNoViolations(`${ROUNDS} failovers`, traffic);
  console.info(
    `writes after the promotion: ${recoveriesMs.map(Math.round)} ms; after the kill: ${outagesMs.map(Math.round)} ms`,
  );
  expect(Math.max(...recoveriesMs), "ms from the promotion to a write by every gateway").toBeLessThan(MAX_RECOVERY_MS);
  expect(["200", "201", "503"]).toEqual(expect.arrayContaining(Object.keys(countStatuses(traffic.samples))));
  service.expectNoExits();
  await service.waitForEmails();
  expect(mailServer.received.length).toBeGreaterThan(0);
});
