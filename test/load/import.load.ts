import { beforeAll, expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { countOutcomes, sendRequest, startLoad } from "../support/http-client.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { type ProcessResult, runCli, spawnCli } from "../support/processes.js";
import { scale } from "../support/rounds.js";
import { runSql } from "../support/run-sql.js";
import { quantile, seededRandom } from "../support/statistics.js";
import { uniqueStay } from "../support/stays.js";
import { portfolio, type Size, writeRows } from "./portfolio.js";

const SIZE: Size = { users: 1_000, listings: 1_500, membersPerListing: 3 };
const ROWS = SIZE.users + SIZE.listings * (1 + SIZE.membersPerListing);
const file = await writeRows(portfolio(SIZE));

const environmentOf = ({ url }: { url: string }) => ({ DATABASE_URL: url, APP_SECRETS: TEST_SECRET });

async function countRows({ DATABASE_URL }: { DATABASE_URL: string }): Promise<number> {
  const [row] = await runSql<{ n: number }>(
    DATABASE_URL,
    `SELECT ((SELECT count(*) FROM users) + (SELECT count(*) FROM listings) + (SELECT count(*) FROM memberships))::int AS n`,
  );
  return row?.n ?? 0;
}

async function startCluster(): Promise<PostgresCluster> {
  const cluster = await PostgresCluster.create();
  afterFile(() => cluster.remove());
  await migrate(cluster.url);
  return cluster;
}

/** Starts an import, and returns it once the database has more than `count` rows. */
async function startImport(env: { DATABASE_URL: string }, count: number) {
  const running = spawnCli(["import", file, "--json"], { env });
  await expect.poll(async () => running.hasExited || (await countRows(env)) > count, { interval: 5 }).toBe(true);
  return running;
}

function expectSuccess({ code, stderr }: ProcessResult): void {
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
}

/** What an import has made, as sorted rows of an export without ids, and the audited actions. */
async function stateOf(env: { DATABASE_URL: string }): Promise<{ rows: string[]; audited: unknown[] }> {
  const { code, stdout, stderr } = await runCli(["export", "--format", "ndjson"], { env });
  if (code !== 0) throw new Error(stderr);
  const audited = await runSql(
    env.DATABASE_URL,
    "SELECT action, count(*)::int, count(DISTINCT (subject_id, details))::int AS different FROM audit_entries GROUP BY 1 ORDER BY 1",
  );
  const rows = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.stringify({ ...JSON.parse(line), id: undefined }));
  return { rows: rows.sort(), audited };
}

/** What one import of the file makes that nothing interrupts. */
let cleanState: Awaited<ReturnType<typeof stateOf>>;

beforeAll(async () => {
  const env = environmentOf(await createTestDatabase());
  expectSuccess(await runCli(["import", file], { env }));
  cleanState = await stateOf(env);
  expect(cleanState.audited).toEqual([
    { action: "listing.created", count: SIZE.listings, different: SIZE.listings },
    { action: "member.set", count: 3 * SIZE.listings, different: 3 * SIZE.listings },
    { action: "user.created", count: SIZE.users, different: SIZE.users },
  ]);
});

test("an interrupted import is completed by running it again after kill -9 at random moments, as if it had run once", async () => {
  const rounds = scale(5);
  const random = seededRandom(7);
  const env = environmentOf(await createTestDatabase());
  let kills = 0;
  for (let round = 0; round < rounds; round++) {
    const count = await countRows(env);
    const running = await startImport(env, count + random() * (ROWS / rounds));
    const { signal } = await running.stop("SIGKILL");
    if (signal === "SIGKILL") kills++;
  }
  const written = await countRows(env);
  console.log(`${kills} kills, ${written} of ${ROWS} rows before the last run`);
  expect(kills).toBeGreaterThan(rounds / 2);
  expectSuccess(await runCli(["import", file], { env }));
  expect(await stateOf(env)).toEqual(cleanState);
});

test("an interrupted import is completed by running it again after the database stopped, and reports how far it came", async () => {
  const cluster = await startCluster();
  const env = environmentOf(cluster);
  for (const signal of ["SIGQUIT", "SIGKILL"] as const) {
    const running = await startImport(env, await countRows(env));
    await cluster.stop(signal);
    const { code, stderr } = await running.done;
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^\d+ of 7000 rows are written\. Run the import again to write the others\.\nerror: The database at 127\.0\.0\.1\S* [^\n]+\n$/,
    );
    await cluster.start();
  }
  expect(await countRows(env)).toBeLessThan(ROWS);
  expectSuccess(await runCli(["import", file], { env }));
  expect(await stateOf(env)).toEqual(cleanState);
});

const IMPORT_LIMIT_SECONDS = 60;
const P99_LIMIT_MS = 200;

test("10,000 listings with 3 members each are imported in under 60 s, while another holder's creates and lists stay under 200 ms at p99", async () => {
  const cluster = await startCluster();
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
