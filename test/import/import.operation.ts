import { describe, expect, test } from "vitest";
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

const none = { created: 0, updated: 0, unchanged: 0 };
const same = (users: number, listings: number, memberships: number, outcome: "created" | "unchanged") => ({
  dryRun: false,
  users: { ...none, [outcome]: users },
  listings: { ...none, [outcome]: listings },
  memberships: { ...none, [outcome]: memberships },
});

describe("10,000 listings with 3 members each", () => {
  test("are imported in under 60 s, while another holder's creates and lists stay under 200 ms at p99", async () => {
    const cluster = await PostgresCluster.create();
    afterFile(() => cluster.remove());
    await migrate(cluster.url);
    const { env, key, listing } = await makeFixture(cluster.url);
    const gateway = await startGatewayProcess(env);
    const path = writeRows(
      "large.ndjson",
      portfolio({ users: 4_000, listings: 10_000, membersPerListing: 3 }),
    );

    const measure = async () => {
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
      expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
      const timesOf = (status: number) =>
        load.responses
          .filter((response) => response.status === status)
          .map(({ sentAt, receivedAt }) => receivedAt - sentAt);
      const times = { lists: timesOf(200), creates: timesOf(201) };
      return {
        summary: JSON.parse(stdout),
        seconds,
        lists: quantile(times.lists, 0.99),
        creates: quantile(times.creates, 0.99),
        outcomes: countOutcomes(load),
      };
    };

    for (const outcome of ["created", "unchanged"] as const) {
      const { summary, seconds, lists, creates, outcomes } = await measure();
      console.log(
        `${outcome}: ${seconds.toFixed(1)} s; p99 of others: lists ${lists.toFixed(0)} ms, creates ${creates.toFixed(0)} ms, ${JSON.stringify(outcomes)}`,
      );
      expect(summary).toEqual(same(4_000, 10_000, 30_000, outcome));
      expect(seconds).toBeLessThan(IMPORT_LIMIT_SECONDS);
      expect(lists).toBeLessThan(P99_LIMIT_MS);
      expect(creates).toBeLessThan(P99_LIMIT_MS);
      expect(Object.keys(outcomes).sort()).toEqual(["200", "201"]);
    }
  });
});
