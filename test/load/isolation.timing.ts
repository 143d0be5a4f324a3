import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { ReplicatedPostgres } from "../cluster/replicated-postgres.js";
import { type PooledGateway, startPooledGateway } from "../fleet/pooled-database.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import type { InstalledPostgres } from "../support/installed-postgres.js";
import { floodLockedListing, MAX_P99_MS, saturate, sendListsAtOnce } from "../support/noisy-tenants.js";
import { expectFast } from "../support/tenants.js";

let gateway: Pick<PooledGateway, "url" | "services" | "process">;

/** Starts a gateway with the default size of the pool. Each group stops its own, so that it takes no CPU time from the next. */
async function start(databaseUrl?: string): Promise<void> {
  const { services, env } = await makeFixture(databaseUrl, { DATABASE_POOL_SIZE: "10" });
  gateway = { services, ...(await startGatewayProcess(env)) };
}

const whileListingIsLocked = () =>
  it("while a listing is locked for 10 s and its owner sends 60 creates per second to it, which succeed or get 503", () =>
    expectFast(MAX_P99_MS, () => floodLockedListing(gateway.url, gateway.services)));

const whileListsAreSent = () =>
  it("while a key holder sends 200 lists at once, which are all served", () =>
    expectFast(
      MAX_P99_MS,
      () => sendListsAtOnce(gateway.url, gateway.services),
      ({ rejected }) => expect(rejected).toBe(0),
    ));

// First: later, this process has the garbage of the others.
describe("with a synchronous standby that applies commits 10 ms late, and commits wait for it, other key holders' requests and health checks take less than 100 ms (p99), and none fails", () => {
  let servers: InstalledPostgres[];

  beforeAll(async () => {
    const { url, primary, standby } = await ReplicatedPostgres.create();
    servers = [standby, primary];
    await standby.query("ALTER SYSTEM SET recovery_min_apply_delay = '10ms'");
    await primary.query("ALTER SYSTEM SET synchronous_commit = remote_apply");
    for (const server of servers) await server.query("SELECT pg_reload_conf()");
    await migrate(url);
    await start(url);
  });
  afterAll(async () => {
    await gateway.process.stop();
    for (const server of servers) await server.stop();
  });
  whileListingIsLocked();
});

describe("other key holders' requests and health checks of the same process take less than 100 ms (p99), and none fails", () => {
  beforeAll(() => start());
  afterAll(() => gateway.process.stop());
  whileListingIsLocked();
  whileListsAreSent();
});

describeWithBinary(
  "pgbouncer",
  "behind PgBouncer, other key holders' requests and health checks take less than 100 ms (p99), and none fails",
  (binary) => {
    beforeAll(async () => {
      gateway = await startPooledGateway(binary);
    });
    afterAll(() => gateway.process.stop());
    whileListingIsLocked();
    whileListsAreSent();
  },
);

describe("at twice the load that a process carries, of which one of 50 key holders sends 90 %", () => {
  beforeAll(() => start());
  afterAll(() => gateway.process.stop());
  it("the others' requests take less than 500 ms (p99), and none fails", () => saturate(gateway.url, gateway.services));
});
