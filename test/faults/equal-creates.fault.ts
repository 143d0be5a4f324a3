import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Answer, slowest } from "../fleet/client.js";
import { type Host, makeWorld, startHosts, type World } from "../fleet/fleet.js";
import { type Create, expectOneForm, isReplay, newCreate, sendAtOnce, stored } from "./creates.js";
import { expectOneMessageEach } from "./messages.js";
import { rounds } from "./rounds.js";

const PROCESSES = 4;
const AT_ONCE = 200;
const ROUNDS = rounds(20, 3);
let world: World;
let hosts: Host[];
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  world = await makeWorld();
  hosts = await startHosts(PROCESSES, world.env);
});
afterAll(() => agent.destroy());

/** The different texts among the answers' bodies. */
const bodiesOf = (answers: Answer[]) => [...new Set(answers.map(({ json }) => JSON.stringify(json)))];
const withStatus = (answers: Answer[], wanted: number) => answers.filter(({ status }) => status === wanted);
const statusesOf = (answers: Answer[]) => [...new Set(answers.map(({ status }) => status))].sort();

it.each([
  { how: "with one Idempotency-Key", keyed: true },
  { how: "without an Idempotency-Key", keyed: false },
])(
  "200 identical creates at once over 4 processes, $how: one form, 199 replays of one body",
  async ({ how, keyed }) => {
    let worst = 0;
    for (let round = 1; round <= ROUNDS; round++) {
      const create = newCreate(world, { keyed });
      const answers = await sendAtOnce(world, hosts, Array<Create>(AT_ONCE).fill(create), agent);
      expect(statusesOf(answers)).toEqual([201]);
      expect(bodiesOf(answers)).toHaveLength(1);
      expect(answers.filter(isReplay)).toHaveLength(AT_ONCE - 1);
      await expectOneForm(world, create, answers[0] as Answer);
      worst = Math.max(worst, slowest(answers));
    }
    console.info(
      `${AT_ONCE} identical creates at once over ${PROCESSES} processes, ${how}: ${ROUNDS} rounds, each with one form, ` +
        `one notification, one body and ${AT_ONCE - 1} replays; slowest answer ${worst.toFixed()} ms`,
    );
  },
);

it("100 against 100 with one Idempotency-Key and two bodies: one body wins, all others are refused", async () => {
  let worst = 0;
  let firstWins = 0;
  for (let round = 1; round <= ROUNDS; round++) {
    const key = randomUUID();
    const [one, other] = [newCreate(world, { keyed: false }), newCreate(world, { keyed: false })];
    // Each pair begins with the other body than the last one, so that every process is sent both.
    const creates = Array.from({ length: AT_ONCE }, (_, at) => ({
      ...((at + Math.floor(at / PROCESSES) + round) % 2 ? one : other),
      key,
    }));
    const answers = await sendAtOnce(world, hosts, creates, agent);
    const winners = new Set(creates.filter((_, at) => answers[at]?.status === 201).map(({ body }) => body));
    const [won] = withStatus(answers, 201);
    const refused = withStatus(answers, 422);
    expect(winners.size).toBe(1);
    expect([withStatus(answers, 201).length, refused.length]).toEqual([AT_ONCE / 2, AT_ONCE / 2]);
    expect(bodiesOf(withStatus(answers, 201))).toHaveLength(1);
    expect(withStatus(answers, 201).filter(isReplay)).toHaveLength(AT_ONCE / 2 - 1);
    expect(new Set(refused.map(({ json }) => (json as { code: string }).code))).toEqual(
      new Set(["IDEMPOTENCY_KEY_REUSED"]),
    );
    const [winner, loser] = winners.has(one.body) ? [one, other] : [other, one];
    await expectOneForm(world, winner, won as Answer);
    expect(await stored(world, loser)).toEqual([]);
    firstWins += Number(winner === one);
    worst = Math.max(worst, slowest(answers));
  }
  console.info(
    `100 against 100 creates with one key and two bodies: ${ROUNDS} rounds, each with 100 equal answers 201 and 100 ` +
      `IDEMPOTENCY_KEY_REUSED; the one body won ${firstWins} times; slowest answer ${worst.toFixed()} ms`,
  );
});

it("each of these forms' guests gets one message", async () => {
  const messages = await expectOneMessageEach(world);
  expect(messages).toBe(3 * ROUNDS);
  console.info(`messages of the raced creates: ${messages} forms, ${messages} messages`);
});
