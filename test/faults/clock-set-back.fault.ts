import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { type Answer, call, newStay, slowest, startLoad, tally } from "../fleet/client.js";
import { type Host, makeWorld, startHosts, type World } from "../fleet/fleet.js";
import { FakedClock } from "./faked-clock.js";
import { Cluster } from "./postgres-cluster.js";
import { rounds } from "./rounds.js";

const SET_BACK_SECONDS = 10;
/** Full: until the clock has reached the forms created before it was set back, and passed them. */
const WATCHED_MS = 1_000 * rounds(14, 5);
const BEFORE_MS = 2_000;
const CREATORS = 3;
const WALKERS = 3;
const LIST_MS = 2_000;

/**
 * Longer than the clock is set back: in a signal handler, libfaketime at times gives the real time, which Postgres takes
 * for timeouts that have passed.
 */
const LONG_TIMEOUTS = { DATABASE_STATEMENT_TIMEOUT_MS: "60000", DATABASE_LOCK_TIMEOUT_MS: "50000" };

let clock: FakedClock;
let cluster: Cluster;
let world: World;
let hosts: Host[];

beforeAll(async () => {
  clock = await FakedClock.create();
  cluster = await Cluster.create({ env: clock.env });
  await migrate(cluster.url);
  world = await makeWorld(cluster.url);
  hosts = await startHosts(2, { ...world.env, ...LONG_TIMEOUTS });
});
afterAll(async () => {
  await Promise.all(hosts.map(({ process }) => process.stopOrKill()));
  await cluster.remove();
  await clock.remove();
});

const gateway = (n: number) => hosts[n % hosts.length]?.url;

async function query<Row extends object>(sql: string): Promise<Row | undefined> {
  const client = new pg.Client({ connectionString: cluster.url });
  await client.connect();
  return client
    .query<Row>(sql)
    .then(({ rows }) => rows[0])
    .finally(() => client.end());
}

/** How far the database's clock is ahead of this process's, in seconds. */
async function databaseOffset(): Promise<number> {
  const row = await query<{ at: number }>("SELECT extract(epoch FROM clock_timestamp())::float8 AS at");
  return (row?.at ?? Number.NaN) - Date.now() / 1_000;
}

interface Walk {
  ids: string[];
  pages: Answer[];
}

/** Reads the list from its first page to its last; stops at an answer that is not a page. */
async function walk(n: number): Promise<Walk> {
  const found: Walk = { ids: [], pages: [] };
  for (let cursor = ""; ; ) {
    const page = await call(`${gateway(n)}/v1/forms?limit=20${cursor}`, world.key.key);
    found.pages.push(page);
    if (page.status !== 200) return found;
    const { items, nextCursor } = page.json as { items: FormV1[]; nextCursor: string | null };
    found.ids.push(...items.map(({ id }) => id));
    if (nextCursor === null) return found;
    cursor = `&cursor=${nextCursor}`;
  }
}

it("after the database's clock was set back by 10 s, lists neither fail nor hang, and list every acknowledged form", async () => {
  const acknowledged: string[] = [];
  const creating = startLoad(
    CREATORS,
    async (n) => {
      const answer = await call(`${gateway(n)}/v1/forms`, world.key.key, {
        method: "POST",
        body: newStay(world.listing.id),
        headers: { "Idempotency-Key": randomUUID() },
      });
      if (answer.status === 201) acknowledged.push((answer.json as FormV1).id);
      return answer;
    },
    20,
  );
  await sleep(BEFORE_MS);
  const before = acknowledged.length;
  expect(Math.abs(await databaseOffset())).toBeLessThan(1);

  await clock.setOffset(-SET_BACK_SECONDS);
  expect(Math.abs((await databaseOffset()) + SET_BACK_SECONDS)).toBeLessThan(1);
  const pages: Answer[] = [];
  const missed: string[] = [];
  let isOver = false;
  let walks = 0;
  const walking = Promise.all(
    Array.from({ length: WALKERS }, async (_, n) => {
      while (!isOver) {
        const expected = [...acknowledged];
        const found = await walk(n);
        pages.push(...found.pages);
        if (found.pages.at(-1)?.status !== 200) continue;
        const listed = new Set(found.ids);
        missed.push(...expected.filter((id) => !listed.has(id)));
        walks++;
      }
    }),
  );
  await sleep(WATCHED_MS);
  isOver = true;
  await walking;
  await creating.stop();

  const listing = { answers: pages, broken: [], stop: async () => {} };
  console.info(
    `The clock set back by ${SET_BACK_SECONDS} s: ${before} forms created before and ${acknowledged.length - before} after, ` +
      `${walks} walks, pages ${JSON.stringify(tally(listing))}, slowest ${slowest(pages).toFixed()} ms`,
  );
  expect(tally(creating)).toEqual({ 201: acknowledged.length });
  expect(acknowledged.length).toBeGreaterThan(2 * before);
  expect(tally(listing)).toEqual({ 200: pages.length });
  expect(slowest(pages)).toBeLessThan(LIST_MS);
  expect(walks).toBeGreaterThan(WALKERS);
  expect(missed).toEqual([]);
  const { ids } = await walk(0);
  expect(ids.toSorted()).toEqual(acknowledged.toSorted());
});

it("a statement timeout still ends a statement in time: only the wall clock is faked", async () => {
  const began = performance.now();
  const sleeping = query("SET statement_timeout = 500; SELECT pg_sleep(5)");
  await expect(sleeping).rejects.toMatchObject({ code: "57014" });
  expect(performance.now() - began).toBeLessThan(2_000);
});
