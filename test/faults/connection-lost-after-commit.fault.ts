import { Agent } from "node:http";
import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { LONG_DATABASE_TIMEOUTS } from "../support/database.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../support/gateway-processes.js";
import { ignoreBrokenConnection } from "../support/http-client.js";
import { type Forward, TcpProxy } from "../support/tcp-proxy.js";
import { expectExactlyOneForm, findStoredForms, isReplay, sendCreate, uniqueCreate } from "./creates.js";
import { expectOneEmailPerForm } from "./emails.js";
import { scaleRounds } from "./rounds.js";

const ROUNDS = scaleRounds(100, 20);

let fixture: Fixture;
let gateways: GatewayProcess[];
let proxy: TcpProxy;

beforeAll(async () => {
  fixture = await makeFixture(undefined, LONG_DATABASE_TIMEOUTS);
  gateways = await startGatewayProcesses(2, fixture.env);
  proxy = await TcpProxy.start(gateways[0]?.url ?? "", { forward: dropResponse });
});

/** Bodies of the responses that no client got. */
const dropped: FormV1[] = [];

/** Resets the client's connection when the response begins. */
const dropResponse: Forward = (client, gateway) => {
  let response = "";
  client.pipe(gateway);
  gateway.once("data", () => client.resetAndDestroy());
  gateway.setEncoding("utf8").on("data", (text: string) => {
    response += text;
  });
  gateway.once("end", () => dropped.push(JSON.parse(response.slice(response.indexOf("\r\n\r\n") + 4))));
};

it("a create whose connection is lost after the commit is replayed with the same body on every process, and sends exactly one email", async () => {
  // Sends `Connection: close`, so the gateway closes the connection after the full response.
  const agent = new Agent({ keepAlive: false });
  for (let round = 0; round < ROUNDS; round++) {
    const create = uniqueCreate(fixture, { hasKey: round % 2 === 0 });
    const lost = await sendCreate(fixture, { url: new URL(proxy.url).origin }, create, agent).catch(
      ignoreBrokenConnection,
    );
    expect(lost, "the response of the first attempt").toBeUndefined();
    await expect.poll(() => dropped.length, { interval: 2 }).toBe(round + 1);
    const { id } = dropped[round] as FormV1;
    expect(await findStoredForms(fixture, create), "committed before the retry").toMatchObject([{ id }]);
    // First on the process that created the form, or first on the other one.
    for (const n of [0, 1]) {
      const retry = await sendCreate(fixture, gateways[((round >> 1) + n) % 2] as GatewayProcess, create);
      expect([retry.status, isReplay(retry)]).toEqual([201, true]);
      expect(retry.json).toEqual(dropped[round]);
      await expectExactlyOneForm(fixture, create, retry);
    }
  }
  const created = new Set(dropped.map(({ id }) => id));
  expect(created.size).toBe(ROUNDS);
  await expectOneEmailPerForm(fixture, created);
});
