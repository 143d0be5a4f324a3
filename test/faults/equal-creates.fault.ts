import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { slowestMs, type TimedResponse } from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../fleet/gateway-processes.js";
import {
  type Create,
  expectExactlyOneForm,
  findStoredForms,
  isReplay,
  sendConcurrently,
  uniqueCreate,
} from "./creates.js";
import { expectOneEmailPerForm } from "./emails.js";
import { scaleRounds } from "./rounds.js";

const PROCESSES = 4;
const CONCURRENT_CREATES = 200;
const ROUNDS = scaleRounds(20, 3);
let fixture: Fixture;
let gateways: GatewayProcess[];
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  fixture = await makeFixture();
  gateways = await startGatewayProcesses(PROCESSES, fixture.env);
});
afterAll(() => agent.destroy());

/** The distinct bodies. */
const distinctBodies = (responses: TimedResponse[]) => [
  ...new Set(responses.map(({ json }) => JSON.stringify(json))),
];
const withStatus = (responses: TimedResponse[], wanted: number) =>
  responses.filter(({ status }) => status === wanted);
const distinctStatuses = (responses: TimedResponse[]) =>
  [...new Set(responses.map(({ status }) => status))].sort();

it.each([
  ["with one Idempotency-Key", true],
  ["without an Idempotency-Key", false],
] as const)(
  "200 concurrent equal creates across 4 processes, %s, make one form and return 199 replays of its body",
  async (how, hasKey) => {
    let worstMs = 0;
    for (let round = 1; round <= ROUNDS; round++) {
      const create = uniqueCreate(fixture, { hasKey });
      const responses = await sendConcurrently(
        fixture,
        gateways,
        Array<Create>(CONCURRENT_CREATES).fill(create),
        agent,
      );
      expect(distinctStatuses(responses)).toEqual([201]);
      expect(distinctBodies(responses)).toHaveLength(1);
      expect(responses.filter(isReplay)).toHaveLength(CONCURRENT_CREATES - 1);
      await expectExactlyOneForm(fixture, create, responses[0] as TimedResponse);
      worstMs = Math.max(worstMs, slowestMs(responses));
    }
    console.info(
      `${CONCURRENT_CREATES} concurrent equal creates across ${PROCESSES} processes, ${how}: ${ROUNDS} rounds, each with one form, ` +
        `one notification, one body and ${CONCURRENT_CREATES - 1} replays; slowest response ${worstMs.toFixed()} ms`,
    );
  },
);

it("of 200 concurrent creates with one Idempotency-Key and two bodies, one body wins and the other gets 422 IDEMPOTENCY_KEY_REUSED", async () => {
  let worstMs = 0;
  let firstWins = 0;
  for (let round = 1; round <= ROUNDS; round++) {
    const key = randomUUID();
    const [one, other] = [uniqueCreate(fixture, { hasKey: false }), uniqueCreate(fixture, { hasKey: false })];
    // The order of the two bodies alternates, so that every process gets both.
    const creates = Array.from({ length: CONCURRENT_CREATES }, (_, index) => ({
      ...((index + Math.floor(index / PROCESSES) + round) % 2 ? one : other),
      key,
    }));
    const responses = await sendConcurrently(fixture, gateways, creates, agent);
    const winners = new Set(
      creates.filter((_, index) => responses[index]?.status === 201).map(({ body }) => body),
    );
    const [winningResponse] = withStatus(responses, 201);
    const rejected = withStatus(responses, 422);
    expect(winners.size).toBe(1);
    expect([withStatus(responses, 201).length, rejected.length]).toEqual([
      CONCURRENT_CREATES / 2,
      CONCURRENT_CREATES / 2,
    ]);
    expect(distinctBodies(withStatus(responses, 201))).toHaveLength(1);
    expect(withStatus(responses, 201).filter(isReplay)).toHaveLength(CONCURRENT_CREATES / 2 - 1);
    expect(new Set(rejected.map(({ json }) => (json as { code: string }).code))).toEqual(
      new Set(["IDEMPOTENCY_KEY_REUSED"]),
    );
    const [winner, loser] = winners.has(one.body) ? [one, other] : [other, one];
    await expectExactlyOneForm(fixture, winner, winningResponse as TimedResponse);
    expect(await findStoredForms(fixture, loser)).toEqual([]);
    firstWins += Number(winner === one);
    worstMs = Math.max(worstMs, slowestMs(responses));
  }
  console.info(
    `100 and 100 concurrent creates with one key and two bodies: ${ROUNDS} rounds, each with 100 equal 201 and 100 ` +
      `IDEMPOTENCY_KEY_REUSED; the first body won ${firstWins} times; slowest response ${worstMs.toFixed()} ms`,
  );
});

it("each guest of concurrent equal creates gets exactly one email", async () => {
  const emails = await expectOneEmailPerForm(fixture);
  expect(emails).toBe(3 * ROUNDS);
  console.info(`concurrent creates: ${emails} forms, ${emails} emails`);
});
