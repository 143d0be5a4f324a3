import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { sendCreate, uniqueCreate } from "../faults/creates.js";
import { messageIdOf } from "../faults/emails.js";
import { FakedClock, LONG_TIMEOUTS } from "../faults/faked-clock.js";
import { idsOf, listAllForms, startListing } from "../faults/full-list.js";
import { PostgresService } from "../faults/postgres-service.js";
import { afterFile } from "../support/after-file.js";
import {
  countOutcomes,
  sendRequest,
  slowestMs,
  startLoad,
  type TimedResponse,
} from "../support/http-client.js";
import { ReplicatedPostgres } from "./replicated-postgres.js";

const BEHIND_SECONDS = 10;
const FORMS_BEFORE = 30;
const CREATING_CLIENTS = 2;
const LISTING_CLIENTS = 2;
const MAX_RESPONSE_MS = 2_000;

let postgres: ReplicatedPostgres;
let service: PostgresService<ReplicatedPostgres>;
beforeAll(async () => {
  const clock = await FakedClock.create();
  afterFile(() => clock.remove());
  await clock.setOffset(-BEHIND_SECONDS);
  postgres = await ReplicatedPostgres.create({ version: "18", standbyEnv: clock.env });
  service = await PostgresService.startOn(postgres, { settings: LONG_TIMEOUTS });
});

/** Every form that was acknowledged, in the order of the responses. */
const acknowledged: FormV1[] = [];

async function createForm(gateway: number): Promise<TimedResponse> {
  const { fixture } = service;
  const create = uniqueCreate(fixture, { hasKey: true });
  const response = await sendCreate(fixture, service.gateway(gateway), create);
  if (response.status === 201) acknowledged.push(response.json as FormV1);
  return response;
}

const inListOrder = (forms: FormV1[]) =>
  forms.toSorted((a, b) => (`${a.createdAt} ${a.id}` < `${b.createdAt} ${b.id}` ? -1 : 1));

it("if the clock of the promoted server is 10 s behind, creates and lists go on without a 503 or a delay; forms may get an earlier createdAt than older ones, a cursor from before skips exactly those, and a list read from the start has every form exactly once", async () => {
  for (let n = 0; n < FORMS_BEFORE; n++) expect((await createForm(n)).status).toBe(201);
  const before = [...acknowledged];
  const [newest, position] = inListOrder(before).toReversed();
  const { key } = service.fixture.key;
  const pagePath = `/v1/forms?limit=${FORMS_BEFORE - 1}`;
  const page = await sendRequest(`${service.gateway(0).url}${pagePath}`, key);
  const { nextCursor: cursor } = page.json as { nextCursor: string };

  await postgres.primary.kill();
  await postgres.promoteStandby();
  for (const gateway of [0, 1])
    await expect.poll(async () => (await createForm(gateway)).status, { interval: 20 }).toBe(201);
  const creating = startLoad(CREATING_CLIENTS, createForm, 50);
  const listing = startListing(service, LISTING_CLIENTS, acknowledged);

  const hasCaughtUp = async () => {
    const [row] = await service.query<{ caughtUp: boolean }>(
      'SELECT clock_timestamp() > $1::timestamptz AS "caughtUp"',
      [newest?.createdAt],
    );
    return row?.caughtUp;
  };
  expect(await hasCaughtUp()).toBe(false);
  const whileBehind = await listAllForms(service, 0, cursor);
  expect(idsOf(whileBehind.forms), "after the cursor while the clock is behind").toEqual([newest?.id]);
  const mailServer = await service.startWorker();
  await expect.poll(hasCaughtUp, { interval: 200 }).toBe(true);
  await expect.poll(() => acknowledged.at(-1)?.createdAt).toSatisfy((at) => at > (newest?.createdAt ?? ""));
  await creating.stop();
  await listing.stop();

  const after = acknowledged.slice(FORMS_BEFORE);
  const earlier = after.filter(({ createdAt }) => createdAt < (newest?.createdAt ?? ""));
  console.info(
    `Clock of the promoted server ${BEHIND_SECONDS} s behind: ${before.length} forms before, ${earlier.length} with an ` +
      `earlier createdAt, ${after.length - earlier.length} later; ${listing.fullLists} full lists, slowest page ` +
      `${slowestMs(listing.pages).toFixed()} ms, slowest create ${slowestMs(creating.responses).toFixed()} ms`,
  );
  expect(earlier.length).toBeGreaterThan(0);
  expect(earlier.length).toBeLessThan(after.length);
  expect(Object.keys(countOutcomes(creating))).toEqual(["201"]);
  expect(Object.keys(countOutcomes({ responses: listing.pages, errors: [] }))).toEqual(["200"]);
  expect(slowestMs([...creating.responses, ...listing.pages])).toBeLessThan(MAX_RESPONSE_MS);
  expect({ missed: listing.missed, repeated: listing.repeated }).toEqual({ missed: [], repeated: [] });
  expect(Math.min(...listing.fullLists)).toBeGreaterThan(3);
  const sorted = inListOrder(acknowledged);
  expect(idsOf((await listAllForms(service, 0)).forms)).toEqual(idsOf(sorted));
  const expected = sorted.slice(sorted.findIndex(({ id }) => id === position?.id) + 1);
  expect(idsOf((await listAllForms(service, 1, cursor)).forms), "after the cursor").toEqual(idsOf(expected));

  const messageIds = () => mailServer.received.map(({ mail }) => mail.messageId).sort();
  await expect.poll(messageIds).toEqual(acknowledged.map(({ id }) => messageIdOf(id)).sort());
  service.expectNoExits();
});
