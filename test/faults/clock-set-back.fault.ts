import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  countOutcomes,
  sendRequest,
  slowestMs,
  startLoad,
  type TimedResponse,
  uniqueStay,
} from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../fleet/gateway-processes.js";
import { FakedClock } from "./faked-clock.js";
import { PostgresCluster } from "./postgres-cluster.js";
import { scaleRounds } from "./rounds.js";

const SET_BACK_SECONDS = 10;
/** With all rounds, long enough for the clock to pass the creation times of forms created before it was set back. */
const WATCH_MS = 1_000 * scaleRounds(14, 5);
const BEFORE_MS = 2_000;
const CREATING_CLIENTS = 3;
const LISTING_CLIENTS = 3;
const MAX_PAGE_MS = 2_000;

/**
 * Longer than the clock is set back. In a signal handler, libfaketime sometimes returns the real time, so Postgres
 * would consider shorter timeouts expired.
 */
const LONG_TIMEOUTS = { DATABASE_STATEMENT_TIMEOUT_MS: "60000", DATABASE_LOCK_TIMEOUT_MS: "50000" };

let clock: FakedClock;
let cluster: PostgresCluster;
let fixture: Fixture;
let gateways: GatewayProcess[];

beforeAll(async () => {
  clock = await FakedClock.create();
  cluster = await PostgresCluster.create({ env: clock.env });
  await migrate(cluster.url);
  fixture = await makeFixture(cluster.url);
  gateways = await startGatewayProcesses(2, { ...fixture.env, ...LONG_TIMEOUTS });
});
afterAll(async () => {
  await Promise.all(gateways.map(({ process }) => process.stopOrKill()));
  await cluster.remove();
  await clock.remove();
});

const gatewayUrl = (n: number) => gateways[n % gateways.length]?.url;

async function query<Row extends object>(sql: string): Promise<Row | undefined> {
  const client = new pg.Client({ connectionString: cluster.url });
  await client.connect();
  return client
    .query<Row>(sql)
    .then(({ rows }) => rows[0])
    .finally(() => client.end());
}

/** How far the database's clock is ahead of this process's, in seconds. */
async function databaseOffsetSeconds(): Promise<number> {
  const row = await query<{ at: number }>("SELECT extract(epoch FROM clock_timestamp())::float8 AS at");
  return (row?.at ?? Number.NaN) - Date.now() / 1_000;
}

interface FullList {
  ids: string[];
  pages: TimedResponse[];
}

/** Reads all pages of the list; stops at a response that is not a page. */
async function listAllForms(n: number): Promise<FullList> {
  const found: FullList = { ids: [], pages: [] };
  for (let cursor = ""; ; ) {
    const page = await sendRequest(`${gatewayUrl(n)}/v1/forms?limit=20${cursor}`, fixture.key.key);
    found.pages.push(page);
    if (page.status !== 200) return found;
    const { items, nextCursor } = page.json as { items: FormV1[]; nextCursor: string | null };
    found.ids.push(...items.map(({ id }) => id));
    if (nextCursor === null) return found;
    cursor = `&cursor=${nextCursor}`;
  }
}

it("after the database's clock is set back by 10 s, lists neither fail nor hang, and return every acknowledged form", async () => {
  const acknowledged: string[] = [];
  const creating = startLoad(
    CREATING_CLIENTS,
    async (n) => {
      const response = await sendRequest(`${gatewayUrl(n)}/v1/forms`, fixture.key.key, {
        method: "POST",
        body: uniqueStay(fixture.listing.id),
        headers: { "Idempotency-Key": randomUUID() },
      });
      if (response.status === 201) acknowledged.push((response.json as FormV1).id);
      return response;
    },
    20,
  );
  await sleep(BEFORE_MS);
  const before = acknowledged.length;
  expect(Math.abs(await databaseOffsetSeconds())).toBeLessThan(1);

  await clock.setOffset(-SET_BACK_SECONDS);
  expect(Math.abs((await databaseOffsetSeconds()) + SET_BACK_SECONDS)).toBeLessThan(1);
  const pages: TimedResponse[] = [];
  const missed: string[] = [];
  let isStopped = false;
  let fullLists = 0;
  const listing = Promise.all(
    Array.from({ length: LISTING_CLIENTS }, async (_, n) => {
      while (!isStopped) {
        const expected = [...acknowledged];
        const found = await listAllForms(n);
        pages.push(...found.pages);
        if (found.pages.at(-1)?.status !== 200) continue;
        const listed = new Set(found.ids);
        missed.push(...expected.filter((id) => !listed.has(id)));
        fullLists++;
      }
    }),
  );
  await sleep(WATCH_MS);
  isStopped = true;
  await listing;
  await creating.stop();

  const pageOutcomes = countOutcomes({ responses: pages, errors: [] });
  console.info(
    `Clock set back by ${SET_BACK_SECONDS} s: ${before} forms created before and ${acknowledged.length - before} after, ` +
      `${fullLists} full lists, pages ${JSON.stringify(pageOutcomes)}, slowest ${slowestMs(pages).toFixed()} ms`,
  );
  expect(countOutcomes(creating)).toEqual({ 201: acknowledged.length });
  expect(acknowledged.length).toBeGreaterThan(2 * before);
  expect(pageOutcomes).toEqual({ 200: pages.length });
  expect(slowestMs(pages)).toBeLessThan(MAX_PAGE_MS);
  expect(fullLists).toBeGreaterThan(LISTING_CLIENTS);
  expect(missed).toEqual([]);
  const { ids } = await listAllForms(0);
  expect(ids.toSorted()).toEqual(acknowledged.toSorted());
});

it("precondition: only the wall clock is faked, so a statement timeout still fires in time", async () => {
  const began = performance.now();
  const sleeping = query("SET statement_timeout = 500; SELECT pg_sleep(5)");
  await expect(sleeping).rejects.toMatchObject({ code: "57014" });
  expect(performance.now() - began).toBeLessThan(2_000);
});
