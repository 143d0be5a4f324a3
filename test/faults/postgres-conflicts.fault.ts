import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { makeListing } from "../support/factories.js";
import { countOutcomes, sendRequest, startLoad, type TimedResponse } from "../support/http-client.js";
import { uniqueStay } from "../support/stays.js";
import { expectExactlyOneForm, isReplay, sendConcurrently, uniqueCreate } from "./creates.js";
import { END_SESSIONS, expectResponsesInTime, PostgresService } from "./postgres-service.js";
import { describeInvalidResponse, type Traffic } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";

const FORMS = 6;
const CLIENTS = 12;
const DEADLOCKS = scaleRounds(10, 2);
const DURATION_MS = 1_000 * scaleRounds(10, 2);
const EQUAL_CREATES = 10;
const EQUAL_CREATE_ROUNDS = scaleRounds(20, 3);

let service: PostgresService;
let listingIds: [string, string];
let forms: FormV1[];

beforeAll(async () => {
  service = await PostgresService.start();
  const { services, userId, listing } = service.fixture;
  listingIds = [listing.id, (await makeListing(services, userId)).id];
});

/** Creates the forms that are updated. */
async function createForms(): Promise<void> {
  const { fixture } = service;
  const bodies = Array.from({ length: FORMS }, () => ({ body: uniqueStay(fixture.listing.id) }));
  const created = await sendConcurrently(fixture, service.gateways, bodies);
  forms = created.map(({ json }) => json as FormV1);
}

let updates = 0;
/** Updates one of a few forms and moves it to another listing, so that concurrent updates conflict. */
function updateForm(): Promise<TimedResponse> {
  const n = updates++;
  const listingId = listingIds[Math.floor(n / FORMS) % 2] ?? "";
  return sendRequest(`${service.gateway(n).url}/v1/forms/${forms[n % FORMS]?.id}`, service.fixture.key.key, {
    method: "PUT",
    body: uniqueStay(listingId),
  });
}

/** Counts occurrences of `text` in the log of Postgres. */
async function countLogged(text: string): Promise<number> {
  return (await readFile(join(service.cluster.dataDir, "log"), "utf8")).split(text).length - 1;
}

const countAuditedUpdates = async () =>
  (await service.query("SELECT FROM audit_entries WHERE action = 'form.updated'")).length;

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: service.cluster.url });
  await client.connect();
  return client;
}

const LOCK_LISTING = "SELECT FROM listings WHERE id = $1 FOR UPDATE";
const LOCK_FORM = "SELECT FROM forms WHERE id = $1 FOR UPDATE";

describe("deadlocks with other database sessions", () => {
  beforeAll(createForms);

  it("an update that Postgres aborts because of a deadlock is retried internally and succeeds", async () => {
    const other = await connect();
    // Longer than the service's, so that Postgres aborts the update and not this session.
    await other.query("SET deadlock_timeout = '1min'");
    const before = await countLogged("deadlock detected");
    for (let round = 0; round < DEADLOCKS; round++) {
      updates = 0;
      await other.query("BEGIN");
      for (const id of listingIds) await other.query(LOCK_LISTING, [id]);
      const updated = updateForm();
      await expect.poll(countWaitingSessions, { interval: 20 }).toBe(1);
      // The update holds the form and waits for the listing: locking the form completes the deadlock.
      await other.query(LOCK_FORM, [forms[0]?.id]);
      await other.query("COMMIT");
      expect((await updated).status).toBe(200);
    }
    await other.end();
    expect((await countLogged("deadlock detected")) - before).toBeGreaterThanOrEqual(DEADLOCKS);
  });

  const countWaitingSessions = async () =>
    (
      await service.query(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'guest-forms'",
      )
    ).length;

  it("under load with many deadlocks, every request gets a success or a 503 with Retry-After, and every retried create makes exactly one form", async () => {
    await setForNewSessions("deadlock_timeout = '50ms'");
    onTestFinished(() => setForNewSessions("deadlock_timeout = '1s'"));
    const before = await countLogged("deadlock detected");
    await service.query("TRUNCATE forms CASCADE; TRUNCATE audit_entries");
    // Few creates, so that updates and locks often meet at the same form.
    const traffic = service.createTraffic({
      perSecond: 80,
      mix: { create: 4, repeat: 10, update: 76, list: 0, fetch: 10, listing: 0 },
      seed: 9,
      listingIds,
    });
    traffic.start();
    let isStopped = false;
    const lockers = Array.from({ length: 4 }, (_, n) => lockInVaryingOrder(traffic, n, () => isStopped));
    await sleep(DURATION_MS);
    const countDeadlocks = async () => (await countLogged("deadlock detected")) - before;
    await expect.poll(countDeadlocks).toBeGreaterThan(0);
    isStopped = true;
    await Promise.all(lockers);
    await traffic.stop();
    await service.expectNoViolations(
      `Load with ${await countDeadlocks()} deadlocks`,
      traffic,
      traffic.samples,
    );
  });
});

/** Locks listings and forms in varying order. Detects deadlocks later than the service, so that the service is aborted. */
async function lockInVaryingOrder(traffic: Traffic, n: number, isStopped: () => boolean): Promise<void> {
  const client = await connect();
  await client.query("SET deadlock_timeout = '500ms'; SET lock_timeout = '2s'");
  for (let turn = n; !isStopped(); turn++) {
    const created = traffic.creates.flatMap(({ form }) => form ?? []).slice(-FORMS);
    const steps: [string, string | undefined][] = [
      [LOCK_LISTING, listingIds[turn % 2]],
      [LOCK_FORM, created[turn % FORMS]?.id],
      [LOCK_FORM, created[(turn + 1) % FORMS]?.id],
    ];
    if (turn % 3 === 0) steps.reverse();
    await client.query("BEGIN");
    try {
      for (const [sql, id] of steps) {
        await client.query(sql, [id]);
        await sleep(20);
      }
      await client.query("COMMIT");
    } catch {
      await client.query("ROLLBACK");
    }
    await sleep(30);
  }
  await client.end();
}

describe.each(["repeatable read", "serializable"])(
  "with the database default isolation level %s",
  (level) => {
    beforeAll(createForms);
    beforeEach(() => setForNewSessions(`default_transaction_isolation = '${level}'`));

    it("the service uses read committed, and concurrent updates of the same forms succeed without a serialization failure", async () => {
      const auditedBefore = await countAuditedUpdates();
      const load = startLoad(CLIENTS, updateForm, 5);
      await sleep(DURATION_MS);
      await load.stop();
      console.info(`Updates with default isolation ${level}: ${JSON.stringify(countOutcomes(load))}`);
      expect(load.errors).toEqual([]);
      expect(load.responses.flatMap((response) => describeInvalidResponse(response) ?? [])).toEqual([]);
      expectResponsesInTime(load.responses);
      const succeeded = load.responses.filter(({ status }) => status === 200).length;
      expect(succeeded / load.responses.length).toBeGreaterThan(0.9);
      expect(await countLogged("could not serialize access")).toBe(0);
      expect((await countAuditedUpdates()) - auditedBefore).toBe(succeeded);
    });

    it("of 10 concurrent equal creates, one makes the form and 9 replay its response", async () => {
      for (let round = 0; round < EQUAL_CREATE_ROUNDS; round++) {
        const create = uniqueCreate(service.fixture, { hasKey: round % 2 === 0 });
        const creates = Array(EQUAL_CREATES).fill(create);
        const responses = await sendConcurrently(service.fixture, service.gateways, creates);
        expect(responses.map(({ status }) => status)).toEqual(creates.map(() => 201));
        expect(responses.map(({ json }) => json)).toEqual(creates.map(() => responses[0]?.json));
        expect(responses.filter(isReplay)).toHaveLength(EQUAL_CREATES - 1);
        await expectExactlyOneForm(service.fixture, create, responses[0] as TimedResponse);
      }
    });
  },
);

/** Stores a database setting and ends open sessions, so that all sessions use it. */
async function setForNewSessions(setting: string): Promise<void> {
  await service.query(`ALTER DATABASE postgres SET ${setting}`);
  await service.query(END_SESSIONS);
  const readiness = () =>
    Promise.all(
      service.gateways.map(async ({ url }) => (await sendRequest(`${url}/readyz`, undefined)).status),
    );
  await expect.poll(readiness, { timeout: 10_000 }).toEqual([200, 200]);
}
