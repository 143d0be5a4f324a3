import { pbkdf2Sync, randomInt, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { describe, expect, it } from "vitest";
import { makeForm, makeListing, makeUser } from "../support/factories.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { type RequestOptions, sendRequest, singleConnectionAgent, type TimedResponse } from "../support/http-client.js";
import { listenLocally } from "../support/network.js";
import { median, medianInterval } from "../support/statistics.js";
import { uniqueStay } from "../support/stays.js";

/** Pairs of requests after which the difference is looked at, again and again until it is certain. */
const PAIRS_PER_ROUND = 500;
const MAX_PAIRS = 20_000;
const WARM_UP_PAIRS = 200;
/** Relative to the median response time. */
const MAX_DIFFERENCE = 0.05;
/** Different ids of each kind, because an attacker would not repeat one. */
const IDS = 50;

interface Ids {
  form: string;
  listing: string;
}

const { services, userId, listing: ownListing, key, env } = await makeFixture();
const { id: ownFormId } = await makeForm(services, userId, ownListing.id);
const { id: strangerId } = await makeUser(services);
/** Of another tenant. */
const foreign: Ids[] = [];
for (let n = 0; n < IDS; n++) {
  const { id } = await makeListing(services, strangerId);
  foreign.push({ listing: id, form: (await makeForm(services, strangerId, id)).id });
}
await services.db.pool.query("ANALYZE");
const gateway = await startGatewayProcess(env);

describe("response times do not reveal whether an id exists in another tenant", () => {
  const missing = Array.from({ length: IDS }, (): Ids => ({ form: randomUUID(), listing: randomUUID() }));
  const agent = singleConnectionAgent();

  const requests: Record<string, (ids: Ids) => [path: string, options: RequestOptions]> = {
    "fetch form": ({ form }) => [`forms/${form}`, {}],
    "fetch listing": ({ listing }) => [`listings/${listing}`, {}],
    "list forms of a listing": ({ listing }) => [`forms?listingId=${listing}`, {}],
    "list forms of a listing in a status": ({ listing }) => [`forms?listingId=${listing}&status=SENT`, {}],
    "create on a listing": ({ listing }) => ["forms", { method: "POST", body: uniqueStay(listing) }],
    "update of a form": ({ form }) => [`forms/${form}`, { method: "PUT", body: uniqueStay(ownListing.id) }],
    "move to a listing": ({ listing }) => [`forms/${ownFormId}`, { method: "PUT", body: uniqueStay(listing) }],
  };

  it.each(Object.entries(requests))(
    "%s takes as long for another tenant's id as for an unknown id",
    async (name, request) => {
      const expectedStatus = name.startsWith("list ") ? 200 : 404;
      const isLeaking = await hasDifference(name, "foreign", "missing", async (kind) => {
        const [path, options] = request({ foreign, missing }[kind][randomInt(IDS)] as Ids);
        const response = await sendRequest(`${gateway.url}/v1/${path}`, key.key, { ...options, agent });
        expect(response.status).toBe(expectedStatus);
        return response;
      });
      expect(isLeaking).toBe(false);
    },
  );
});

it("control: a server that takes 25% longer for one of two ids is detected", async () => {
  const server = createServer((req, res) => {
    // Computes instead of waiting, so that it takes proportionally longer on a busy machine.
    pbkdf2Sync("password", "salt", req.url === "/slower" ? 5_000 : 4_000, 32, "sha256");
    res.end("{}");
  });
  const url = `http://127.0.0.1:${await listenLocally(server)}`;
  const agent = singleConnectionAgent();
  const isLeaking = await hasDifference("a leaking server", "slower", "faster", (path) =>
    sendRequest(`${url}/${path}`, undefined, { agent }),
  );
  agent.destroy();
  server.close();
  expect(isLeaking).toBe(true);
});

/**
 * Sends pairs of requests, one of each kind, until the median difference within a pair is certainly smaller or certainly
 * larger than MAX_DIFFERENCE. A busy machine only needs more pairs. Throws if MAX_PAIRS are not enough.
 */
async function hasDifference<Kind extends string>(
  name: string,
  one: Kind,
  other: Kind,
  send: (kind: Kind) => Promise<TimedResponse>,
): Promise<boolean> {
  const measure = async (kind: Kind) => {
    const { sentAt, receivedAt } = await send(kind);
    return receivedAt - sentAt;
  };
  const differences: number[] = [];
  const times: number[] = [];
  for (let pair = -WARM_UP_PAIRS; pair < MAX_PAIRS; pair++) {
    // Interleaved in random order, so that machine noise affects both kinds equally.
    const isReversed = randomInt(2) === 1;
    const first = await measure(isReversed ? other : one);
    const second = await measure(isReversed ? one : other);
    if (pair < 0) continue;
    differences.push(isReversed ? second - first : first - second);
    times.push(first, second);
    if (differences.length % PAIRS_PER_ROUND > 0) continue;
    const typical = median(times);
    const [low, high] = medianInterval(differences).map((ms) => ms / typical) as [number, number];
    const isSmaller = -MAX_DIFFERENCE < low && high < MAX_DIFFERENCE;
    const isLarger = high < -MAX_DIFFERENCE || low > MAX_DIFFERENCE;
    if (!isSmaller && !isLarger) continue;
    const [from, to] = [low, high].map((share) => `${(100 * share).toFixed(1)}%`);
    console.info(
      `${name}: ${one} takes ${from} to ${to} longer than ${other} (${differences.length} pairs, median ${typical.toFixed(2)} ms)`,
    );
    return isLarger;
  }
  throw new Error(`${name}: ${MAX_PAIRS} pairs of requests do not show whether the times differ.`);
}
