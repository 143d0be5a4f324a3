import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../support/gateway-processes.js";
import { countOutcomes, slowestMs, type TimedResponse } from "../support/http-client.js";
import { errorCodeOf } from "../support/response.js";
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
/** Ids of the forms that clients know. */
const acknowledged = new Set<string>();
let worstMs = 0;

beforeAll(async () => {
  fixture = await makeFixture();
  gateways = await startGatewayProcesses(PROCESSES, fixture.env);
});
afterAll(() => {
  console.info(`slowest of ${CONCURRENT_CREATES} concurrent creates: ${worstMs.toFixed()} ms`);
  agent.destroy();
});

async function sendAll(creates: Create[]): Promise<TimedResponse[]> {
  const responses = await sendConcurrently(fixture, gateways, creates, agent);
  worstMs = Math.max(worstMs, slowestMs(responses));
  return responses;
}

/** Asserts that these are one create and its replays, and that the database has only its form. */
async function expectOneForm(create: Create, responses: TimedResponse[]): Promise<void> {
  const [first] = responses as [TimedResponse];
  expect(countOutcomes({ responses, errors: [] })).toEqual({ 201: responses.length });
  expect(new Set(responses.map(({ json }) => JSON.stringify(json))).size).toBe(1);
  expect(responses.filter(isReplay)).toHaveLength(responses.length - 1);
  await expectExactlyOneForm(fixture, create, first);
  acknowledged.add((first.json as FormV1).id);
}

async function sendEqualCreates(hasKey: boolean): Promise<void> {
  const create = uniqueCreate(fixture, { hasKey });
  await expectOneForm(create, await sendAll(Array<Create>(CONCURRENT_CREATES).fill(create)));
}

/** Sends two bodies with one Idempotency-Key. The order of the bodies alternates with `round`. */
async function sendTwoBodies(round: number): Promise<void> {
  const key = randomUUID();
  const bodies = [uniqueCreate(fixture, { hasKey: false }), uniqueCreate(fixture, { hasKey: false })];
  // The order of the two bodies alternates, so that every process gets both.
  const bodyOf = (index: number) => (index + Math.floor(index / PROCESSES) + round) % 2;
  const creates = Array.from({ length: CONCURRENT_CREATES }, (_, index) => ({
    ...(bodies[bodyOf(index)] as Create),
    key,
  }));
  const responses = await sendAll(creates);
  const winner = bodyOf(responses.findIndex(({ status }) => status === 201));
  await expectOneForm(
    bodies[winner] as Create,
    responses.filter((_, index) => bodyOf(index) === winner),
  );
  const rejected = responses.filter((_, index) => bodyOf(index) !== winner);
  expect(new Set(rejected.map((response) => `${response.status} ${errorCodeOf(response)}`))).toEqual(
    new Set(["422 IDEMPOTENCY_KEY_REUSED"]),
  );
  expect(await findStoredForms(fixture, bodies[1 - winner] as Create)).toEqual([]);
}

it.each([
  ["with one Idempotency-Key", true],
  ["without an Idempotency-Key", false],
] as const)(
  "200 concurrent equal creates across 4 processes, %s, make one form and return 199 replays of its body",
  async (_, hasKey) => {
    for (let round = 1; round <= ROUNDS; round++) await sendEqualCreates(hasKey);
  },
);

it("of 200 concurrent creates with one Idempotency-Key and two bodies, one body wins and the other gets 422 IDEMPOTENCY_KEY_REUSED", async () => {
  for (let round = 1; round <= ROUNDS; round++) await sendTwoBodies(round);
});

it("each guest of concurrent equal creates gets exactly one email", async () => {
  for (const hasKey of [true, false]) await sendEqualCreates(hasKey);
  await sendTwoBodies(1);
  await expectOneEmailPerForm(fixture, acknowledged);
});
