import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { countOutcomes, slowestMs, startLoad } from "../support/http-client.js";
import { sendCreate, uniqueCreate } from "./creates.js";
import { FakedClock, LONG_TIMEOUTS } from "./faked-clock.js";
import { idsOf, listAllForms, startListing } from "./full-list.js";
import { PostgresService } from "./postgres-service.js";

const SET_BACK_SECONDS = 10;
/** Long enough for the clock to pass the creation times of forms created before it was set back. */
const WATCH_MS = 14_000;
const BEFORE_MS = 2_000;
const CREATING_CLIENTS = 3;
const LISTING_CLIENTS = 3;
const MAX_PAGE_MS = 2_000;

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
  const listing = startListing(service, LISTING_CLIENTS, acknowledged);
  await sleep(WATCH_MS);
  await listing.stop();
  await creating.stop();
  const { pages, missed, repeated, fullLists } = listing;

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
  const { forms } = await listAllForms(service, 0);
  expect(idsOf(forms).sort()).toEqual(idsOf(acknowledged).sort());
});

it("precondition: only the wall clock is faked, so a statement timeout still fires in time", async () => {
  const began = performance.now();
  const sleeping = service.query("SET statement_timeout = 500; SELECT pg_sleep(5)");
  await expect(sleeping).rejects.toMatchObject({ code: "57014" });
  expect(performance.now() - began).toBeLessThan(2_000);
});
