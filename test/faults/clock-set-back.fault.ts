import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  countOutcomes,
  sendRequest,
  slowestMs,
  startLoad,
  type TimedResponse,
} from "../support/http-client.js";
import { sendCreate, uniqueCreate } from "./creates.js";
import { FakedClock } from "./faked-clock.js";
import { PostgresService } from "./postgres-service.js";

const SET_BACK_SECONDS = 10;
/** Long enough for the clock to pass the creation times of forms created before it was set back. */
const WATCH_MS = 14_000;
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
let service: PostgresService;

beforeAll(async () => {
  clock = await FakedClock.create();
  service = await PostgresService.start({ cluster: { env: clock.env }, settings: LONG_TIMEOUTS });
});
afterAll(async () => {
  await service.close();
  await clock.remove();
});

/** How far the database's clock is ahead of this process's, in seconds. */
async function databaseOffsetSeconds(): Promise<number> {
  const [row] = await service.query<{ at: number }>(
    "SELECT extract(epoch FROM clock_timestamp())::float8 AS at",
  );
  return (row?.at ?? Number.NaN) - Date.now() / 1_000;
}

interface FullList {
  forms: FormV1[];
  pages: TimedResponse[];
}

/** Reads all pages of the list; stops at a response that is not a page. */
async function listAllForms(n: number): Promise<FullList> {
  const found: FullList = { forms: [], pages: [] };
  for (let cursor = ""; ; ) {
    const { url } = service.gateway(n);
    const page = await sendRequest(`${url}/v1/forms?limit=20${cursor}`, service.fixture.key.key);
    found.pages.push(page);
    if (page.status !== 200) return found;
    const { items, nextCursor } = page.json as { items: FormV1[]; nextCursor: string | null };
    found.forms.push(...items);
    if (nextCursor === null) return found;
    cursor = `&cursor=${nextCursor}`;
  }
}

const idsOf = (forms: FormV1[]) => forms.map(({ id }) => id);
const lastCreationOf = (forms: FormV1[]) => Math.max(...forms.map(({ createdAt }) => Date.parse(createdAt)));

it("after the database's clock is set back by 10 s, lists neither fail nor hang, and return every acknowledged form exactly once", async () => {
  const acknowledged: FormV1[] = [];
  const creating = startLoad(
    CREATING_CLIENTS,
    async (n) => {
      const { fixture } = service;
      const response = await sendCreate(fixture, service.gateway(n), uniqueCreate(fixture, { hasKey: true }));
      if (response.status === 201) acknowledged.push(response.json as FormV1);
      return response;
    },
    20,
  );
  await sleep(BEFORE_MS);
  const before = [...acknowledged];
  expect(Math.abs(await databaseOffsetSeconds())).toBeLessThan(1);

  await clock.setOffset(-SET_BACK_SECONDS);
  expect(Math.abs((await databaseOffsetSeconds()) + SET_BACK_SECONDS)).toBeLessThan(1);
  const pages: TimedResponse[] = [];
  const missed: string[] = [];
  const repeated: string[] = [];
  const fullLists = Array<number>(LISTING_CLIENTS).fill(0);
  let isStopped = false;
  const listing = fullLists.map(async (_, n) => {
    while (!isStopped) {
      const expected = idsOf(acknowledged);
      const found = await listAllForms(n);
      pages.push(...found.pages);
      const listed = new Set(idsOf(found.forms));
      missed.push(...expected.filter((id) => !listed.has(id)));
      repeated.push(...idsOf(found.forms).filter((id) => !listed.delete(id)));
      fullLists[n] = (fullLists[n] ?? 0) + 1;
    }
  });
  await sleep(WATCH_MS);
  isStopped = true;
  await Promise.all(listing);
  await creating.stop();

  console.info(
    `Clock set back by ${SET_BACK_SECONDS} s: ${before.length} forms created before and ` +
      `${acknowledged.length - before.length} after, ${fullLists} full lists, slowest page ${slowestMs(pages).toFixed()} ms`,
  );
  expect(countOutcomes(creating)).toEqual({ 201: acknowledged.length });
  expect(before.length).toBeGreaterThan(0);
  expect(lastCreationOf(acknowledged), "the clock has caught up").toBeGreaterThan(lastCreationOf(before));
  expect(countOutcomes({ responses: pages, errors: [] })).toEqual({ 200: pages.length });
  expect(slowestMs(pages)).toBeLessThan(MAX_PAGE_MS);
  expect(Math.min(...fullLists), "full lists of each client").toBeGreaterThan(3);
  expect({ missed, repeated }).toEqual({ missed: [], repeated: [] });
  const { forms } = await listAllForms(0);
  expect(idsOf(forms).sort()).toEqual(idsOf(acknowledged).sort());
});

it("precondition: only the wall clock is faked, so a statement timeout still fires in time", async () => {
  const began = performance.now();
  const sleeping = service.query("SET statement_timeout = 500; SELECT pg_sleep(5)");
  await expect(sleeping).rejects.toMatchObject({ code: "57014" });
  expect(performance.now() - began).toBeLessThan(2_000);
});
