import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { countOutcomes, sendRequest, startLoad } from "../support/http-client.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runCli } from "../support/processes.js";
import { quantile } from "../support/statistics.js";
import { uniqueStay } from "../support/stays.js";
import { portfolio, writeRows } from "./portfolio.js";

const IMPORT_LIMIT_SECONDS = 60;
const P99_LIMIT_MS = 200;

test("10,000 listings with 3 members each are imported in under 60 s, while another holder's creates and lists stay under 200 ms at p99", async () => {
  const cluster = await PostgresCluster.create();
  afterFile(() => cluster.remove());
  await migrate(cluster.url);
  const { env, key, listing } = await makeFixture(cluster.url);
  const gateway = await startGatewayProcess(env);
  const path = await writeRows(portfolio({ users: 4_000, listings: 10_000, membersPerListing: 3 }));

  for (const outcome of ["created", "unchanged"] as const) {
    const load = startLoad(
      4,
      (client) =>
        client % 2 === 0
          ? sendRequest(`${gateway.url}/v1/forms`, key.key, {
              method: "POST",
              body: uniqueStay(listing.id),
            })
          : sendRequest(`${gateway.url}/v1/forms?limit=20`, key.key),
      20,
    );
    const began = performance.now();
    const { stdout, stderr, code } = await runCli(["import", path, "--json"], { env });
    const seconds = (performance.now() - began) / 1000;
    await load.stop();
    const p99Of = (status: number) =>
      quantile(
        load.responses
          .filter((response) => response.status === status)
          .map(({ sentAt, receivedAt }) => receivedAt - sentAt),
        0.99,
      );
    const [lists, creates] = [p99Of(200), p99Of(201)];
    console.log(
      `${outcome}: ${seconds.toFixed(1)} s; p99 of others: lists ${lists.toFixed(0)} ms, creates ${creates.toFixed(0)} ms, ${JSON.stringify(countOutcomes(load))}`,
    );
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    const only = (count: number) => ({ created: 0, updated: 0, unchanged: 0, [outcome]: count });
    const { ids, ...summary } = JSON.parse(stdout);
    expect(summary).toEqual({
      dryRun: false,
      users: only(4_000),
      listings: only(10_000),
      memberships: only(30_000),
    });
    expect(ids).toHaveLength(14_000);
    expect(seconds).toBeLessThan(IMPORT_LIMIT_SECONDS);
    expect(lists).toBeLessThan(P99_LIMIT_MS);
    expect(creates).toBeLessThan(P99_LIMIT_MS);
    expect(Object.keys(countOutcomes(load)).sort()).toEqual(["200", "201"]);
  }
});
