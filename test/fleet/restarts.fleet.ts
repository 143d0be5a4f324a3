import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type EmbeddedServer, startEmbedded } from "../../gateway/dev/embedded.js";
import { migrate } from "../../prisma/migrate.js";
import { asOperator, makeKey, type TestKey } from "../factories.js";
import { call, startLoad, tally } from "./client.js";
import { type Host, makeWorld, startHosts, type World } from "./fleet.js";

let dataDir: string;
let postgres: EmbeddedServer;
let world: World;
let hosts: Host[];
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "guest-forms-fleet-"));
  postgres = await startEmbedded({ dataDir, durable: true });
  await migrate(postgres.url);
  world = await makeWorld(postgres.url);
  hosts = await startHosts(3, world.env);
});
afterAll(async () => {
  agent.destroy();
  await Promise.all(hosts.map(({ process }) => process.stopOrKill()));
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
});

it("a key revoked just before the database restarts is refused within a second, by 503 at worst", async () => {
  const { keys } = asOperator(world.services);
  let worst = 0;
  for (let restart = 1; restart <= 4; restart++) {
    const key: TestKey = await makeKey(world.services, world.userId);
    const load = startLoad(
      hosts.length,
      (host) => call(`${hosts[host]?.url}/v1/listings?limit=1`, key.key, { agent }),
      15,
    );
    await sleep(200 + 250 * restart);
    await keys.revoke({ id: key.id });
    const revokedAt = performance.now();
    await postgres.stop();
    await sleep(1_200);
    postgres = await startEmbedded({ dataDir, durable: true, port: postgres.port });
    await sleep(1_500);
    await load.stop();
    expect(load.broken).toEqual([]);
    const statuses = new Set(load.answers.map(({ status }) => status));
    console.info(`restart ${restart}: ${JSON.stringify(tally(load))}`);
    expect([...statuses].filter((status) => ![200, 401, 503].includes(status))).toEqual([]);
    // All that came later than a second after, whenever it was asked for.
    const late = load.answers.filter(({ cameAt }) => cameAt > revokedAt + 1_000);
    expect(late.filter(({ status }) => status === 200)).toEqual([]);
    expect(load.answers.at(-1)?.status, "the database is back").toBe(401);
    const accepted = load.answers
      .filter(({ status }) => status === 200)
      .map(({ cameAt }) => cameAt - revokedAt);
    worst = Math.max(worst, ...accepted);
  }
  console.info(`accepted for at most ${worst.toFixed()} ms after the revocation`);
});
