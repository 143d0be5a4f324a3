import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@redis/client";
import { afterFile } from "../support/after-file.js";
import { createRedis, type ExternalServer } from "../support/external-server.js";
import { makeKey } from "../support/factories.js";
import { makeFixture, startGatewayProcesses } from "../support/gateway-processes.js";
import { sendRequest, startLoad } from "../support/http-client.js";
import { freePort } from "../support/network.js";

export const LIMIT = 40;

/** Enough that the clients stay below the rate limit of each. */
const KEYS = 150;

/** Starts two gateways whose Redis is down, and clients that send requests until the end of the test file. */
export async function startGatewaysWithoutRedis(binary: string) {
  const fixture = await makeFixture();
  const keys = await Promise.all(Array.from({ length: KEYS }, () => makeKey(fixture.services, fixture.userId)));
  const redis = createRedis(binary, await freePort());
  const gateways = await startGatewayProcesses(2, {
    ...fixture.env,
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    RATE_LIMIT_MAX: String(LIMIT),
    // Short, so that the counts of one test are gone in the next.
    RATE_LIMIT_WINDOW_SECONDS: "8",
  });
  const urlOf = (index: number) => `${gateways[index % gateways.length]?.url}/v1/listings?limit=1`;
  const agent = new Agent({ keepAlive: true });
  let requestCount = 0;
  const sendNext = () => sendRequest(urlOf(++requestCount), keys[requestCount % KEYS]?.key, { agent });
  const load = startLoad(6, sendNext, 30);
  afterFile(async () => {
    await load.stop();
    agent.destroy();
  });
  // Warm-up: the first requests of a process are slower than an outage makes them.
  await sleep(3_000);
  return { fixture, redis, gateways, urlOf, load };
}

export const connectTo = ({ port }: ExternalServer) =>
  createClient({ url: `redis://127.0.0.1:${port}` })
    .on("error", () => {})
    .connect();

const setReplicaOf = async (redis: ExternalServer, ...primary: string[]) => {
  const client = await connectTo(redis);
  await client.sendCommand(["REPLICAOF", ...primary]);
  client.destroy();
};

type Change = (redis: ExternalServer) => void | Promise<void>;

/** What breaks Redis, and what restores it. The first is the state in which the gateways start. */
export const OUTAGES: [name: string, breakRedis: Change, restoreRedis: Change][] = [
  ["is down at startup", () => {}, (redis) => redis.start()],
  ["is killed and restarts empty", (redis) => redis.kill(), (redis) => redis.start()],
  ["hangs", (redis) => redis.signal("SIGSTOP"), (redis) => redis.signal("SIGCONT")],
  ["rejects writes", (redis) => setReplicaOf(redis, "127.0.0.1", "1"), (redis) => setReplicaOf(redis, "NO", "ONE")],
];
