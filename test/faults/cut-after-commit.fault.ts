import { Agent } from "node:http";
import { beforeAll, expect, it } from "vitest";
import { type Host, startHosts, type World } from "../fleet/fleet.js";
import { expectOneForm, isReplay, newCreate, send, stored } from "./creates.js";
import { expectOneMessageEach } from "./messages.js";
import { makePatientWorld } from "./patient-world.js";
import { rounds } from "./rounds.js";
import { TornWay } from "./torn-way.js";

const ROUNDS = rounds(100, 20);

let world: World;
let hosts: Host[];
let way: TornWay;

beforeAll(async () => {
  world = await makePatientWorld();
  hosts = await startHosts(2, world.env);
  way = await TornWay.lay(hosts[0]?.url ?? "");
});

it("a create whose socket is cut after the commit is replayed with the same body, on any process", async () => {
  let committed = 0;
  let replays = 0;
  // "Connection: close": the gateway ends its side when all has been said.
  const agent = new Agent({ keepAlive: false });
  for (let round = 0; round < ROUNDS; round++) {
    const create = newCreate(world, { keyed: round % 2 === 0 });
    const lost = way.next();
    await expect(send(world, way, create, agent)).rejects.toThrow(/ECONNRESET|socket hang up/);
    committed += (await stored(world, create)).length;
    // The process that made it, and the other, in turn.
    const retry = await send(world, hosts[(round >> 1) % 2] as Host, create);
    expect(retry.status).toBe(201);
    expect(retry.json).toEqual(await lost);
    await expectOneForm(world, create, retry);
    replays += Number(isReplay(retry));
  }
  console.info(
    `socket cut after the commit: ${ROUNDS} rounds; ${committed} forms were there at the cut; ${replays} retries ` +
      "replayed the body that was lost",
  );
  expect([committed, replays]).toEqual([ROUNDS, ROUNDS]);
});

it("each of these forms' guests gets one message", async () => {
  const messages = await expectOneMessageEach(world);
  expect(messages).toBe(ROUNDS);
  console.info(`messages of the creates that were cut off: ${messages} forms, ${messages} messages`);
});
