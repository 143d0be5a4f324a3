import { randomInt, randomUUID } from "node:crypto";
import { Agent, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import { makeForm, makeListing, makeUser } from "../factories.js";
import { type Answer, type Call, call, newStay } from "../fleet/client.js";
import { type Host, makeWorld, startHost, type World } from "../fleet/fleet.js";
import { median } from "./tool.js";

const EACH = 2_000;
const WARMING = 300;
const APART = 0.05;
/** Ids of each kind: an attacker has no reason to ask for the same one again. */
const IDS = 50;

interface Ids {
  form: string;
  listing: string;
}

describe("what is of others is told apart from what is not there by no time", () => {
  let world: World;
  let host: Host;
  let own: string;
  const foreign: Ids[] = [];
  const missing = Array.from({ length: IDS }, (): Ids => ({ form: randomUUID(), listing: randomUUID() }));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  beforeAll(async () => {
    world = await makeWorld();
    const { services, userId, listing } = world;
    own = (await makeForm(services, userId, listing.id)).id;
    const { id: stranger } = await makeUser(services);
    for (let n = 0; n < IDS; n++) {
      const { id } = await makeListing(services, stranger);
      foreign.push({ listing: id, form: (await makeForm(services, stranger, id)).id });
    }
    await services.db.pool.query("ANALYZE");
    host = await startHost(world.env);
  });

  const requests: Record<string, (ids: Ids) => [path: string, call: Call]> = {
    "fetch form": ({ form }) => [`forms/${form}`, {}],
    "fetch listing": ({ listing }) => [`listings/${listing}`, {}],
    "list forms of a listing": ({ listing }) => [`forms?listingId=${listing}`, {}],
    "create on a listing": ({ listing }) => ["forms", { method: "POST", body: newStay(listing) }],
    "update of a form": ({ form }) => [`forms/${form}`, { method: "PUT", body: newStay(world.listing.id) }],
    "move to a listing": ({ listing }) => [`forms/${own}`, { method: "PUT", body: newStay(listing) }],
  };

  // A difference shows every time, what else the machine does does not.
  it.each(Object.entries(requests))("%s", { retry: 2 }, async (name, request) => {
    const apart = await compare(name, "foreign", "missing", async (kind) => {
      const ids = { foreign, missing }[kind][randomInt(IDS)];
      if (!ids) throw new Error("there are as many ids as are drawn from");
      const [path, options] = request(ids);
      const answer = await call(`${host.url}/v1/${path}`, world.key.key, { ...options, agent });
      expect(answer.status).toBe(name.startsWith("list ") ? 200 : 404);
      return answer;
    });
    expect(apart).toBeLessThan(APART);
  });
});

it("a server that works a quarter longer for one of two ids is found out", async () => {
  const server = createServer((req, res) => {
    const end = performance.now() + (req.url === "/slower" ? 1.25 : 1);
    while (performance.now() < end);
    res.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const apart = await compare("a leaking server", "slower", "faster", (path) =>
    call(`${url}/${path}`, undefined, { agent }),
  );
  agent.destroy();
  server.close();
  expect(apart).toBeGreaterThan(APART);
});

/** How far apart the medians of two kinds of request are, as a share of the smaller. */
async function compare<Kind extends string>(
  name: string,
  one: Kind,
  other: Kind,
  ask: (kind: Kind) => Promise<Answer>,
): Promise<number> {
  const times = new Map<Kind, number[]>([
    [one, []],
    [other, []],
  ]);
  for (let n = 0; n < WARMING; n++) await ask(n % 2 ? one : other);
  for (let n = 0; n < EACH; n++) {
    // In turns, and who is first by chance: whatever else the machine does falls on both alike.
    for (const kind of randomInt(2) ? [one, other] : [other, one]) {
      const { sentAt, cameAt } = await ask(kind);
      times.get(kind)?.push(cameAt - sentAt);
    }
  }
  const [first = Number.NaN, second = Number.NaN] = [...times.values()].map(median);
  const apart = Math.abs(first - second) / Math.min(first, second);
  const [of, to] = [first, second].map((ms) => ms.toFixed(3));
  console.info(`${name}: ${one} ${of} ms, ${other} ${to} ms, ${(100 * apart).toFixed(1)} % apart`);
  return apart;
}
