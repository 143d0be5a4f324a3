import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { makeListing } from "../factories.js";
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
import { PostgresCluster } from "./postgres-cluster.js";
import { describeInvalidResponse } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";

const FORMS = 6;
const CLIENTS = 12;
const DEADLOCKS = scaleRounds(10, 2);
const DURATION_MS = 1_000 * scaleRounds(10, 2);
const EQUAL_CREATE_ROUNDS = scaleRounds(20, 3);
/** A request gives up after 2.6 s; the rest allows for a busy machine. */
const MAX_RESPONSE_MS = 5_000;

let cluster: PostgresCluster;
let fixture: Fixture;
let gateways: GatewayProcess[];
let listingIds: string[];
let forms: FormV1[];

beforeAll(async () => {
  cluster = await PostgresCluster.create();
  await migrate(cluster.url);
  fixture = await makeFixture(cluster.url);
  const other = await makeListing(fixture.services, fixture.userId);
  listingIds = [fixture.listing.id, other.id];
  gateways = await startGatewayProcesses(2, fixture.env);
  forms = [];
  for (let n = 0; n < FORMS; n++) {
    const created = await createForm(n, uniqueStay(listingIds[n % 2] ?? ""), randomUUID());
    expect(created.status).toBe(201);
    forms.push(created.json as FormV1);
  }
});
afterAll(async () => {
  await Promise.all(gateways.map(({ process }) => process.stopOrKill()));
  await cluster.remove();
});

const gatewayUrl = (n: number) => gateways[n % gateways.length]?.url;

const createForm = (n: number, body: unknown, key: string): Promise<TimedResponse> =>
  sendRequest(`${gatewayUrl(n)}/v1/forms`, fixture.key.key, {
    method: "POST",
    body,
    headers: { "Idempotency-Key": key },
  });

let updates = 0;
/** Updates one of a few forms and moves it to another listing, so that concurrent updates conflict. */
function updateForm(): Promise<TimedResponse> {
  const n = updates++;
  const form = forms[n % FORMS];
  const listingId = listingIds[Math.floor(n / FORMS) % 2] ?? "";
  return sendRequest(`${gatewayUrl(n)}/v1/forms/${form?.id}`, fixture.key.key, {
    method: "PUT",
    body: uniqueStay(listingId),
  });
}

/** Counts occurrences of `text` in the log of Postgres. */
async function countLogged(text: string): Promise<number> {
  return (await readFile(join(cluster.dataDir, "log"), "utf8")).split(text).length - 1;
}

async function query<Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: cluster.url });
  await client.connect();
  return client
    .query<Row>(sql, values)
    .then(({ rows }) => rows)
    .finally(() => client.end());
}

const countAuditedUpdates = async () =>
  (
    await query<{ n: number }>("SELECT count(*)::int AS n FROM audit_entries WHERE action = 'form.updated'")
  )[0]?.n ?? 0;

/** Runs concurrent clients; asserts that every response is a success or a 503 with Retry-After. */
async function runLoad(request: (client: number) => Promise<TimedResponse>): Promise<TimedResponse[]> {
  const load = startLoad(CLIENTS, request, 5);
  await sleep(DURATION_MS);
  await load.stop();
  expect(load.errors).toEqual([]);
  expect(load.responses.map(describeInvalidResponse).filter((problem) => problem)).toEqual([]);
  expect(load.responses.filter(({ status }) => status < 300).length).toBeGreaterThan(10);
  expect(slowestMs(load.responses)).toBeLessThan(MAX_RESPONSE_MS);
  return load.responses;
}

describe("deadlocks with other database sessions", () => {
  it("an update that Postgres aborts because of a deadlock is retried internally and succeeds", async () => {
    const other = new pg.Client({ connectionString: cluster.url });
    await other.connect();
    // Longer than the service's, so that Postgres aborts the update and not this session.
    await other.query("SET deadlock_timeout = '1min'");
    const before = await countLogged("deadlock detected");
    for (let round = 0; round < DEADLOCKS; round++) {
      const [form] = forms;
      await other.query("BEGIN");
      await other.query("SELECT FROM listings WHERE id = ANY($1) FOR UPDATE", [listingIds]);
      const updated = updateFirstForm();
      await expect.poll(countWaitingSessions, { timeout: 5_000, interval: 20 }).toBe(1);
      // The update holds the form and waits for the listing: locking the form completes the deadlock.
      const lockForm = other.query("SELECT FROM forms WHERE id = $1 FOR UPDATE", [form?.id]);
      await lockForm;
      await other.query("COMMIT");
      const response = await updated;
      expect(response.status).toBe(200);
    }
    await other.end();
    const deadlocks = (await countLogged("deadlock detected")) - before;
    console.info(
      `${DEADLOCKS} deadlocks provoked: ${deadlocks} detected by Postgres, every update returned 200`,
    );
    expect(deadlocks).toBeGreaterThanOrEqual(DEADLOCKS);
  });

  const updateFirstForm = () =>
    sendRequest(`${gatewayUrl(0)}/v1/forms/${forms[0]?.id}`, fixture.key.key, {
      method: "PUT",
      body: uniqueStay(listingIds[0] ?? ""),
    });

  const countWaitingSessions = async () =>
    (
      await query(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'guest-forms'",
      )
    ).length;

  it("under load with many deadlocks, every request gets a success or a 503 with Retry-After", async () => {
    await setForNewSessions("deadlock_timeout = '50ms'");
    const before = await countLogged("deadlock detected");
    const auditedBefore = await countAuditedUpdates();
    let isStopped = false;
    const lockers = Array.from({ length: 4 }, (_, n) => lockInVaryingOrder(n, () => isStopped));
    const responses = await runLoad((client) =>
      client % 3 === 0
        ? createForm(client, uniqueStay(listingIds[client % 2] ?? ""), randomUUID())
        : updateForm(),
    );
    isStopped = true;
    await Promise.all(lockers);
    await setForNewSessions("deadlock_timeout = '1s'");
    const deadlocks = (await countLogged("deadlock detected")) - before;
    report(`Load with deadlocks (${deadlocks} detected by Postgres)`, responses);
    expect(deadlocks).toBeGreaterThan(0);
    expect((await countAuditedUpdates()) - auditedBefore).toBeGreaterThanOrEqual(
      responses.filter(({ status }) => status === 200).length,
    );
  });
});

/** Locks listings and forms in varying order. Detects deadlocks later than the service, so that the service is aborted. */
async function lockInVaryingOrder(n: number, isStopped: () => boolean): Promise<void> {
  const client = new pg.Client({ connectionString: cluster.url });
  await client.connect();
  await client.query("SET deadlock_timeout = '500ms'; SET lock_timeout = '2s'");
  const listing = "SELECT FROM listings WHERE id = $1 FOR UPDATE";
  const form = "SELECT FROM forms WHERE id = $1 FOR UPDATE";
  for (let turn = n; !isStopped(); turn++) {
    const steps: [string, string | undefined][] = [
      [listing, listingIds[turn % 2]],
      [form, forms[turn % FORMS]?.id],
      [form, forms[(turn + 1) % FORMS]?.id],
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
    it("the service uses read committed, and every update gets a success or a 503 with Retry-After", async () => {
      await setForNewSessions(`default_transaction_isolation = '${level}'`);
      const before = await countLogged("could not serialize access");
      const auditedBefore = await countAuditedUpdates();
      const responses = await runLoad(updateForm);
      const failures = (await countLogged("could not serialize access")) - before;
      report(
        `Updates with default isolation ${level} (${failures} serialization failures in Postgres)`,
        responses,
      );
      expect(failures).toBe(0);
      expect((await countAuditedUpdates()) - auditedBefore).toBeGreaterThanOrEqual(
        responses.filter(({ status }) => status === 200).length,
      );
    });

    it("concurrent equal creates make one form", async () => {
      for (let round = 0; round < EQUAL_CREATE_ROUNDS; round++) {
        const body = uniqueStay(fixture.listing.id);
        const key = randomUUID();
        const responses = await Promise.all(Array.from({ length: 10 }, (_, n) => createForm(n, body, key)));
        expect(responses.map(describeInvalidResponse).filter((problem) => problem)).toEqual([]);
        const created = responses.filter(({ status }) => status === 201);
        const ids = new Set(created.map(({ json }) => (json as FormV1).id));
        expect(ids.size).toBe(1);
        const count = await query<{ n: number }>(
          "SELECT count(*)::int AS n FROM forms WHERE check_in_date = $1",
          [body.checkInDate],
        );
        expect(count).toEqual([{ n: 1 }]);
      }
    });
  },
);

/** Stores a database setting and terminates open sessions, so that all sessions use it. */
async function setForNewSessions(setting: string): Promise<void> {
  await query(`ALTER DATABASE postgres SET ${setting}`);
  await query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guest-forms'",
  );
  await expect
    .poll(
      async () =>
        (await Promise.all(gateways.map(({ url }) => sendRequest(`${url}/readyz`, undefined)))).map(
          ({ status }) => status,
        ),
      { timeout: 10_000 },
    )
    .toEqual([200, 200]);
}

function report(what: string, responses: TimedResponse[]): void {
  const counts = JSON.stringify(countOutcomes({ responses, errors: [] }));
  console.info(
    `${what}: ${responses.length} responses ${counts}, slowest ${slowestMs(responses).toFixed()} ms`,
  );
}
