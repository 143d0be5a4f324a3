import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { makeListing } from "../factories.js";
import { type Answer, call, newStay, slowest, startLoad, tally } from "../fleet/client.js";
import { type Host, makeWorld, startHosts, type World } from "../fleet/fleet.js";
import { Cluster } from "./postgres-cluster.js";
import { faultOf } from "./postgres-traffic.js";
import { rounds } from "./rounds.js";

const FORMS = 6;
const CLIENTS = 12;
const DEADLOCKS = rounds(10, 2);
const DURATION_MS = 1_000 * rounds(10, 2);
const EQUAL_ROUNDS = rounds(20, 3);
/** Every request gives up after 2.6 s; the rest is for a busy machine. */
const ANSWER_MS = 5_000;

let cluster: Cluster;
let world: World;
let hosts: Host[];
let listingIds: string[];
let forms: FormV1[];

beforeAll(async () => {
  cluster = await Cluster.create();
  await migrate(cluster.url);
  world = await makeWorld(cluster.url);
  const other = await makeListing(world.services, world.userId);
  listingIds = [world.listing.id, other.id];
  hosts = await startHosts(2, world.env);
  forms = [];
  for (let n = 0; n < FORMS; n++) {
    const created = await post(n, newStay(listingIds[n % 2] ?? ""), randomUUID());
    expect(created.status).toBe(201);
    forms.push(created.json as FormV1);
  }
});
afterAll(async () => {
  await Promise.all(hosts.map(({ process }) => process.stopOrKill()));
  await cluster.remove();
});

const gateway = (n: number) => hosts[n % hosts.length]?.url;

const post = (n: number, body: unknown, key: string): Promise<Answer> =>
  call(`${gateway(n)}/v1/forms`, world.key.key, {
    method: "POST",
    body,
    headers: { "Idempotency-Key": key },
  });

/** Updates of the same few forms by many clients at once, moving them between the listings. */
let updates = 0;
function update(): Promise<Answer> {
  const n = updates++;
  const form = forms[n % FORMS];
  const listingId = listingIds[Math.floor(n / FORMS) % 2] ?? "";
  return call(`${gateway(n)}/v1/forms/${form?.id}`, world.key.key, {
    method: "PUT",
    body: newStay(listingId),
  });
}

/** How often Postgres has said that. */
async function timesLogged(text: string): Promise<number> {
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

const audited = async () =>
  (
    await query<{ n: number }>("SELECT count(*)::int AS n FROM audit_entries WHERE action = 'form.updated'")
  )[0]?.n ?? 0;

/** Many clients for a while; every answer is a success or a 503 that says when to try again. */
async function storm(request: (client: number) => Promise<Answer>): Promise<Answer[]> {
  const load = startLoad(CLIENTS, request, 5);
  await sleep(DURATION_MS);
  await load.stop();
  expect(load.broken).toEqual([]);
  expect(load.answers.map(faultOf).filter((fault) => fault)).toEqual([]);
  expect(load.answers.filter(({ status }) => status < 300).length).toBeGreaterThan(10);
  expect(slowest(load.answers)).toBeLessThan(ANSWER_MS);
  return load.answers;
}

describe("deadlocks with other sessions", () => {
  it("end in success when the other session goes on: the update is tried again inside", async () => {
    const other = new pg.Client({ connectionString: cluster.url });
    await other.connect();
    // The request is the one that finds the deadlock, and gives up.
    await other.query("SET deadlock_timeout = '1min'");
    const before = await timesLogged("deadlock detected");
    for (let round = 0; round < DEADLOCKS; round++) {
      const [form] = forms;
      await other.query("BEGIN");
      await other.query("SELECT FROM listings WHERE id = ANY($1) FOR UPDATE", [listingIds]);
      const updated = update0();
      await expect.poll(waiting, { timeout: 5_000, interval: 20 }).toBe(1);
      // It holds the form, and waits for the listing.
      const crossed = other.query("SELECT FROM forms WHERE id = $1 FOR UPDATE", [form?.id]);
      await crossed;
      await other.query("COMMIT");
      const answer = await updated;
      expect(answer.status).toBe(200);
    }
    await other.end();
    const deadlocks = (await timesLogged("deadlock detected")) - before;
    console.info(
      `${DEADLOCKS} deadlocks provoked around updates: ${deadlocks} found by Postgres, every update answered 200`,
    );
    expect(deadlocks).toBeGreaterThanOrEqual(DEADLOCKS);
  });

  const update0 = () =>
    call(`${gateway(0)}/v1/forms/${forms[0]?.id}`, world.key.key, {
      method: "PUT",
      body: newStay(listingIds[0] ?? ""),
    });

  const waiting = async () =>
    (
      await query(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'guest-forms'",
      )
    ).length;

  it("in a storm of them, every request is answered: a success or 503", async () => {
    await onEverySession("deadlock_timeout = '50ms'");
    const before = await timesLogged("deadlock detected");
    const audits = await audited();
    let over = false;
    const others = Array.from({ length: 4 }, (_, n) => lockInAnyOrder(n, () => over));
    const answers = await storm((client) =>
      client % 3 === 0 ? post(client, newStay(listingIds[client % 2] ?? ""), randomUUID()) : update(),
    );
    over = true;
    await Promise.all(others);
    await onEverySession("deadlock_timeout = '1s'");
    const deadlocks = (await timesLogged("deadlock detected")) - before;
    report(`A storm of deadlocks (${deadlocks} found by Postgres)`, answers);
    expect(deadlocks).toBeGreaterThan(0);
    expect((await audited()) - audits).toBeGreaterThanOrEqual(
      answers.filter(({ status }) => status === 200).length,
    );
  });
});

/** A session that locks the listings and forms, a few at a time, in any order; itself it gives up late. */
async function lockInAnyOrder(n: number, isOver: () => boolean): Promise<void> {
  const client = new pg.Client({ connectionString: cluster.url });
  await client.connect();
  await client.query("SET deadlock_timeout = '500ms'; SET lock_timeout = '2s'");
  const listing = "SELECT FROM listings WHERE id = $1 FOR UPDATE";
  const form = "SELECT FROM forms WHERE id = $1 FOR UPDATE";
  for (let turn = n; !isOver(); turn++) {
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

describe.each(["repeatable read", "serializable"])("transactions that are %s by default", (level) => {
  it("are made at read committed all the same, and every update is answered", async () => {
    await onEverySession(`default_transaction_isolation = '${level}'`);
    const before = await timesLogged("could not serialize access");
    const audits = await audited();
    const answers = await storm(update);
    const failures = (await timesLogged("could not serialize access")) - before;
    report(`Updates, ${level} by default (${failures} serialization failures in Postgres)`, answers);
    expect(failures).toBe(0);
    expect((await audited()) - audits).toBeGreaterThanOrEqual(
      answers.filter(({ status }) => status === 200).length,
    );
  });

  it("conflict, and equal creates at once make one form", async () => {
    for (let round = 0; round < EQUAL_ROUNDS; round++) {
      const body = newStay(world.listing.id);
      const key = randomUUID();
      const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => post(n, body, key)));
      expect(answers.map(faultOf).filter((fault) => fault)).toEqual([]);
      const created = answers.filter(({ status }) => status === 201);
      const ids = new Set(created.map(({ json }) => (json as FormV1).id));
      expect(ids.size).toBe(1);
      const found = await query<{ n: number }>(
        "SELECT count(*)::int AS n FROM forms WHERE check_in_date = $1",
        [body.checkInDate],
      );
      expect(found).toEqual([{ n: 1 }]);
    }
  });
});

/** Sets it for the database, and ends the sessions that there are. */
async function onEverySession(setting: string): Promise<void> {
  await query(`ALTER DATABASE postgres SET ${setting}`);
  await query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guest-forms'",
  );
  await expect
    .poll(
      async () =>
        (await Promise.all(hosts.map(({ url }) => call(`${url}/readyz`, undefined)))).map(
          ({ status }) => status,
        ),
      { timeout: 10_000 },
    )
    .toEqual([200, 200]);
}

function report(what: string, answers: Answer[]): void {
  const counts = JSON.stringify(tally({ answers, broken: [], stop: async () => {} }));
  console.info(`${what}: ${answers.length} answers ${counts}, slowest ${slowest(answers).toFixed()} ms`);
}
