import { randomInt, randomUUID } from "node:crypto";
import { Agent, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import { makeForm, makeListing, makeUser } from "../factories.js";
import { type RequestOptions, sendRequest, type TimedResponse, uniqueStay } from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../fleet/gateway-processes.js";
import { median } from "./tool.js";

const SAMPLES = 2_000;
const WARM_UP_REQUESTS = 300;
/** Largest difference between the medians, relative to the smaller one. */
const MAX_DIFFERENCE = 0.05;
/** Different ids of each kind, because an attacker would not repeat one. */
const IDS = 50;

interface Ids {
  form: string;
  listing: string;
}

describe("response times do not reveal whether an id exists in another tenant", () => {
  let fixture: Fixture;
  let gateway: GatewayProcess;
  let ownFormId: string;
  const foreign: Ids[] = [];
  const missing = Array.from({ length: IDS }, (): Ids => ({ form: randomUUID(), listing: randomUUID() }));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  beforeAll(async () => {
    fixture = await makeFixture();
    const { services, userId, listing } = fixture;
    ownFormId = (await makeForm(services, userId, listing.id)).id;
    const { id: strangerId } = await makeUser(services);
    for (let n = 0; n < IDS; n++) {
      const { id } = await makeListing(services, strangerId);
      foreign.push({ listing: id, form: (await makeForm(services, strangerId, id)).id });
    }
    await services.db.pool.query("ANALYZE");
    gateway = await startGatewayProcess(fixture.env);
  });

  const requests: Record<string, (ids: Ids) => [path: string, options: RequestOptions]> = {
    "fetch form": ({ form }) => [`forms/${form}`, {}],
    "fetch listing": ({ listing }) => [`listings/${listing}`, {}],
    "list forms of a listing": ({ listing }) => [`forms?listingId=${listing}`, {}],
    "create on a listing": ({ listing }) => ["forms", { method: "POST", body: uniqueStay(listing) }],
    "update of a form": ({ form }) => [
      `forms/${form}`,
      { method: "PUT", body: uniqueStay(fixture.listing.id) },
    ],
    "move to a listing": ({ listing }) => [
      `forms/${ownFormId}`,
      { method: "PUT", body: uniqueStay(listing) },
    ],
  };

  // Retried, because machine noise differs from run to run, and a real difference does not.
  it.each(Object.entries(requests))(
    "%s takes as long for another tenant's id as for an unknown id",
    { retry: 2 },
    async (name, request) => {
      const difference = await measureDifference(name, "foreign", "missing", async (kind) => {
        const ids = { foreign, missing }[kind][randomInt(IDS)];
        if (!ids) throw new Error("no id drawn");
        const [path, options] = request(ids);
        const response = await sendRequest(`${gateway.url}/v1/${path}`, fixture.key.key, {
          ...options,
          agent,
        });
        expect(response.status).toBe(name.startsWith("list ") ? 200 : 404);
        return response;
      });
      expect(difference).toBeLessThan(MAX_DIFFERENCE);
    },
  );
});

it("control: a server that takes 25% longer for one of two ids is detected", async () => {
  const server = createServer((req, res) => {
    const end = performance.now() + (req.url === "/slower" ? 1.25 : 1);
    while (performance.now() < end);
    res.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const difference = await measureDifference("a leaking server", "slower", "faster", (path) =>
    sendRequest(`${url}/${path}`, undefined, { agent }),
  );
  agent.destroy();
  server.close();
  expect(difference).toBeGreaterThan(MAX_DIFFERENCE);
});

/** Returns the difference between the median times of two kinds of request, relative to the smaller one. */
async function measureDifference<Kind extends string>(
  name: string,
  one: Kind,
  other: Kind,
  send: (kind: Kind) => Promise<TimedResponse>,
): Promise<number> {
  const times = new Map<Kind, number[]>([
    [one, []],
    [other, []],
  ]);
  for (let n = 0; n < WARM_UP_REQUESTS; n++) await send(n % 2 ? one : other);
  for (let n = 0; n < SAMPLES; n++) {
    // Interleaved in random order, so that machine noise affects both kinds equally.
    for (const kind of randomInt(2) ? [one, other] : [other, one]) {
      const { sentAt, receivedAt } = await send(kind);
      times.get(kind)?.push(receivedAt - sentAt);
    }
  }
  const [first = Number.NaN, second = Number.NaN] = [...times.values()].map(median);
  const difference = Math.abs(first - second) / Math.min(first, second);
  const [oneMs, otherMs] = [first, second].map((ms) => ms.toFixed(3));
  console.info(
    `${name}: ${one} ${oneMs} ms, ${other} ${otherMs} ms, ${(100 * difference).toFixed(1)}% difference`,
  );
  return difference;
}
