import { Agent } from "node:http";
import { beforeAll, expect, it } from "vitest";
import { type Fixture, type GatewayProcess, startGatewayProcesses } from "../fleet/gateway-processes.js";
import { expectExactlyOneForm, findStoredForms, isReplay, sendCreate, uniqueCreate } from "./creates.js";
import { expectOneEmailPerForm } from "./emails.js";
import { makeLongTimeoutsFixture } from "./long-timeouts-fixture.js";
import { ResponseDroppingProxy } from "./response-dropping-proxy.js";
import { scaleRounds } from "./rounds.js";

const ROUNDS = scaleRounds(100, 20);

let fixture: Fixture;
let gateways: GatewayProcess[];
let proxy: ResponseDroppingProxy;

beforeAll(async () => {
  fixture = await makeLongTimeoutsFixture();
  gateways = await startGatewayProcesses(2, fixture.env);
  proxy = await ResponseDroppingProxy.start(gateways[0]?.url ?? "");
});

it("a create whose connection is lost after the commit is replayed with the same body on every process", async () => {
  let committed = 0;
  let replays = 0;
  // Sends `Connection: close`, so the gateway closes the connection after the full response.
  const agent = new Agent({ keepAlive: false });
  for (let round = 0; round < ROUNDS; round++) {
    const create = uniqueCreate(fixture, { hasKey: round % 2 === 0 });
    const droppedBody = proxy.nextDroppedBody();
    await expect(sendCreate(fixture, proxy, create, agent)).rejects.toThrow(/ECONNRESET|socket hang up/);
    committed += (await findStoredForms(fixture, create)).length;
    // Alternates between the process that created the form and the other one.
    const retry = await sendCreate(fixture, gateways[(round >> 1) % 2] as GatewayProcess, create);
    expect(retry.status).toBe(201);
    expect(retry.json).toEqual(await droppedBody);
    await expectExactlyOneForm(fixture, create, retry);
    replays += Number(isReplay(retry));
  }
  console.info(
    `connection lost after the commit: ${ROUNDS} rounds; ${committed} forms committed before the loss; ${replays} ` +
      "retries replayed the lost body",
  );
  expect([committed, replays]).toEqual([ROUNDS, ROUNDS]);
});

it("each guest whose create lost its connection after the commit gets exactly one email", async () => {
  const emails = await expectOneEmailPerForm(fixture);
  expect(emails).toBe(ROUNDS);
  console.info(`creates whose connection was lost: ${emails} forms, ${emails} emails`);
});
