import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { sendRequest, type TimedResponse, uniqueStay } from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../fleet/gateway-processes.js";
import { type RunningProcess, spawnCli } from "../harness.js";
import { mailEnv, openMailServer } from "../server/mail-server.js";
import { PostgresCluster } from "./postgres-cluster.js";
import { describeInvalidResponse } from "./postgres-traffic.js";

const CREATES = 20;
const MAX_RESPONSE_MS = 3_000;

interface Create {
  key: string;
  body: FormBody;
}

let primary: PostgresCluster;
let standby: PostgresCluster;
let fixture: Fixture;
let primaryGateway: GatewayProcess;
let standbyGateway: GatewayProcess;
let worker: RunningProcess;
/** Forms that the primary acknowledged. */
const acknowledged: FormV1[] = [];
/** Creates that the standby rejected. */
let rejected: Create[] = [];

beforeAll(async () => {
  primary = await PostgresCluster.create();
  await migrate(primary.url);
  fixture = await makeFixture(primary.url);
  standby = await createStandby(primary);
  primaryGateway = await startGatewayProcess(fixture.env);
  standbyGateway = await startGatewayProcess({ ...fixture.env, DATABASE_URL: standby.url });
});
afterAll(async () => {
  await Promise.all([
    primaryGateway.process.stopOrKill(),
    standbyGateway.process.stopOrKill(),
    worker?.stopOrKill(),
  ]);
  await standby.remove();
  await primary.remove();
});

/** Creates a streaming standby from the files of the stopped primary. */
async function createStandby(primaryCluster: PostgresCluster): Promise<PostgresCluster> {
  const dataDir = await mkdtemp(join(tmpdir(), "guest-forms-standby-"));
  await primaryCluster.stop("SIGINT");
  execFileSync("cp", ["-a", `${primaryCluster.dataDir}/.`, dataDir]);
  await writeFile(join(dataDir, "cluster/standby.signal"), "");
  await primaryCluster.start();
  const { hostname, port, username, password } = new URL(primaryCluster.url);
  const source = `host=${hostname} port=${port} user=${username} password=${password}`;
  return PostgresCluster.create({ dataDir, settings: { primary_conninfo: source } });
}

const sendCreate = ({ url }: GatewayProcess, { key, body }: Create): Promise<TimedResponse> =>
  sendRequest(`${url}/v1/forms`, fixture.key.key, {
    method: "POST",
    body,
    headers: { "Idempotency-Key": key },
  });

const get = ({ url }: GatewayProcess, path: string): Promise<TimedResponse> =>
  sendRequest(`${url}${path}`, fixture.key.key);

const newCreates = (count: number): Create[] =>
  Array.from({ length: count }, () => ({
    key: randomUUID(),
    body: { ...uniqueStay(fixture.listing.id), guestEmail: `${randomUUID()}@example.com` },
  }));

/** Asserts that creates and an update get a 503 error envelope, and that reads succeed. */
async function expectReadOnly(gateway: GatewayProcess, creates: Create[]): Promise<void> {
  const [form] = acknowledged;
  const update = sendRequest(`${gateway.url}/v1/forms/${form?.id}`, fixture.key.key, {
    method: "PUT",
    body: uniqueStay(fixture.listing.id),
  });
  const responses = await Promise.all([...creates.map((create) => sendCreate(gateway, create)), update]);
  for (const response of responses) {
    expect(response.status).toBe(503);
    expect(describeInvalidResponse(response)).toBeUndefined();
    expect(response.receivedAt - response.sentAt).toBeLessThan(MAX_RESPONSE_MS);
  }
  const paths = ["/v1/forms?limit=5", "/v1/listings", `/v1/listings/${fixture.listing.id}`];
  for (const path of [...paths, `/v1/forms/${form?.id}`]) {
    expect([path, (await get(gateway, path)).status]).toEqual([path, 200]);
  }
}

async function withClient<Result>(
  { url }: PostgresCluster,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return work(client).finally(() => client.end());
}

/** Counts the rows of each table that a create writes to, except notifications. */
const countWritten = (cluster: PostgresCluster): Promise<number[]> =>
  withClient(cluster, async (client) => {
    const { rows } = await client.query<Record<string, number>>(
      `SELECT (SELECT count(*)::int FROM forms) AS forms, (SELECT count(*)::int FROM creations) AS creations,
        (SELECT count(*)::int FROM idempotency_keys) AS keys,
        (SELECT count(*)::int FROM audit_entries WHERE action LIKE 'form.%') AS audited`,
    );
    return Object.values(rows[0] ?? {});
  });

it("on a streaming standby, reads succeed and writes get 503", async () => {
  for (const create of newCreates(CREATES)) {
    const response = await sendCreate(primaryGateway, create);
    expect(response.status).toBe(201);
    acknowledged.push(response.json as FormV1);
  }
  const last = `/v1/forms/${acknowledged.at(-1)?.id}`;
  await expect.poll(async () => (await get(standbyGateway, last)).status, { timeout: 20_000 }).toBe(200);
  for (const form of acknowledged) {
    expect((await get(standbyGateway, `/v1/forms/${form.id}`)).json).toEqual(form);
  }
  rejected = newCreates(CREATES);
  await expectReadOnly(standbyGateway, rejected);
  expect(await countWritten(primary)).toEqual(Array(4).fill(CREATES));
  console.info(`Standby: ${CREATES} forms read, ${CREATES} creates and an update got 503`);
});

it("a promoted standby accepts the creates that it rejected, each exactly once", async () => {
  await primary.stop("SIGKILL");
  await withClient(standby, (client) => client.query("SELECT pg_promote()"));
  await expect
    .poll(async () => (await sendCreate(standbyGateway, rejected[0] as Create)).status, { timeout: 20_000 })
    .toBe(201);
  for (const create of rejected) expect((await sendCreate(standbyGateway, create)).status).toBe(201);
  expect(await countWritten(standby)).toEqual(Array(4).fill(2 * CREATES));
  console.info(`Promoted standby: ${CREATES} rejected creates accepted once each, none of ${CREATES} lost`);
});

it("while the database is read-only, writes get 503 and no process exits; afterwards creates and notifications succeed", async () => {
  const mailServer = await openMailServer();
  worker = spawnCli(["worker"], {
    env: { ...fixture.env, DATABASE_URL: standby.url, ...mailEnv(mailServer.url) },
  });
  await worker.waitForLine(/^Sending notifications/, 60_000);
  await expect.poll(countPendingNotifications, { timeout: 30_000 }).toBe(0);
  await setReadOnly("on");
  const creates = newCreates(CREATES);
  await expectReadOnly(standbyGateway, creates);
  // Long enough for the worker to poll for notifications, which writes.
  await sleep(3_000);
  expect(await countWritten(standby)).toEqual(Array(4).fill(2 * CREATES));
  await setReadOnly("off");
  for (const create of creates) {
    await expect
      .poll(async () => (await sendCreate(standbyGateway, create)).status, { timeout: 10_000 })
      .toBe(201);
  }
  expect(await countWritten(standby)).toEqual(Array(4).fill(3 * CREATES));
  await expect.poll(countPendingNotifications, { timeout: 60_000, interval: 250 }).toBe(0);
  expect(mailServer.received).toHaveLength(3 * CREATES);
  console.info(
    `Database read-only for 3 s: ${CREATES} creates rejected, then accepted once each; the worker kept running`,
  );
});

/** Changes the setting for new sessions, and terminates open ones. */
const setReadOnly = (state: "on" | "off") =>
  withClient(standby, async (client) => {
    await client.query("SET default_transaction_read_only = off");
    await client.query(`ALTER DATABASE postgres SET default_transaction_read_only = ${state}`);
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND application_name <> 'guest-forms owner' AND backend_type = 'client backend'`,
    );
  });

const countPendingNotifications = () =>
  withClient(standby, async (client) => {
    const { rows } = await client.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM notifications WHERE state <> 'sent'",
    );
    return rows[0]?.n;
  });
