import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-processes.js";
import { type RequestOptions, sendRequest, type TimedResponse } from "../support/http-client.js";
import type { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";
import { createStandby } from "./create-standby.js";
import { type Create, sendCreate, uniqueCreate } from "./creates.js";
import { END_SESSIONS, expectResponsesInTime, PostgresService } from "./postgres-service.js";
import { describeInvalidResponse } from "./postgres-traffic.js";

const CREATES = 20;

let primary: PostgresService;
let standby: PostgresCluster;
let standbyGateway: GatewayProcess;
/** Forms that the primary acknowledged. */
const acknowledged: FormV1[] = [];
/** Creates that the standby rejected. */
let rejected: Create[] = [];

beforeAll(async () => {
  primary = await PostgresService.start({ gateways: 1 });
  standby = await createStandby(primary.cluster);
  standbyGateway = await startGatewayProcess({ ...primary.fixture.env, DATABASE_URL: standby.url });
  return async () => {
    await standbyGateway.process.stopOrKill();
    await standby.remove();
  };
});

const create = (gateway: GatewayProcess, body: Create): Promise<TimedResponse> =>
  sendCreate(primary.fixture, gateway, body);

const send = ({ url }: GatewayProcess, path: string, options?: RequestOptions): Promise<TimedResponse> =>
  sendRequest(`${url}${path}`, primary.fixture.key.key, options);

const newCreates = () =>
  Array.from({ length: CREATES }, () => uniqueCreate(primary.fixture, { hasKey: true }));

/** Asserts that creates and an update get a 503 error envelope, and that reads succeed. */
async function expectReadOnly(creates: Create[]): Promise<void> {
  const [form] = acknowledged;
  const { listing } = primary.fixture;
  const body = uniqueStay(listing.id);
  const update = send(standbyGateway, `/v1/forms/${form?.id}`, { method: "PUT", body });
  const responses = await Promise.all([...creates.map((each) => create(standbyGateway, each)), update]);
  expect(responses.map(({ status }) => status)).toEqual(Array(CREATES + 1).fill(503));
  expect(responses.flatMap((response) => describeInvalidResponse(response) ?? [])).toEqual([]);
  expectResponsesInTime(responses);
  for (const path of ["forms?limit=5", "listings", `listings/${listing.id}`, `forms/${form?.id}`]) {
    expect([path, (await send(standbyGateway, `/v1/${path}`)).status]).toEqual([path, 200]);
  }
}

/** Asserts the number of rows of each table that a create writes to, except notifications. */
async function expectStored(cluster: PostgresCluster, forms: number): Promise<void> {
  const rows = await runSql(
    cluster.url,
    `SELECT (SELECT count(*)::int FROM forms) AS forms, (SELECT count(*)::int FROM creations) AS creations,
      (SELECT count(*)::int FROM idempotency_keys) AS keys,
      (SELECT count(*)::int FROM audit_entries WHERE action LIKE 'form.%') AS audited`,
  );
  expect(rows).toEqual([{ forms, creations: forms, keys: forms, audited: forms }]);
}

/** Sends creates until the first is accepted; the others must be accepted at once. */
async function expectAccepted(creates: Create[]): Promise<void> {
  const statusOf = async (each: Create) => (await create(standbyGateway, each)).status;
  await expect.poll(() => statusOf(creates[0] as Create), { timeout: 20_000 }).toBe(201);
  for (const each of creates) expect(await statusOf(each)).toBe(201);
}

it("on a streaming standby, reads succeed and writes get 503", async () => {
  for (const each of newCreates()) {
    const response = await create(primary.gateway(0), each);
    expect(response.status).toBe(201);
    acknowledged.push(response.json as FormV1);
  }
  const last = `/v1/forms/${acknowledged.at(-1)?.id}`;
  await expect.poll(async () => (await send(standbyGateway, last)).status, { timeout: 20_000 }).toBe(200);
  for (const form of acknowledged) {
    expect((await send(standbyGateway, `/v1/forms/${form.id}`)).json).toEqual(form);
  }
  rejected = newCreates();
  await expectReadOnly(rejected);
  await expectStored(primary.cluster, CREATES);
});

it("a promoted standby accepts the creates that it rejected, each exactly once", async () => {
  await primary.cluster.stop("SIGKILL");
  await runSql(standby.url, "SELECT pg_promote()");
  await expectAccepted(rejected);
  await expectStored(standby, 2 * CREATES);
});

it("while the database is read-only, writes get 503 and no process exits; afterwards creates and notifications succeed", async () => {
  const mailServer = await primary.startWorker({ DATABASE_URL: standby.url });
  await expectNoPendingNotifications();
  await setReadOnly("on");
  const creates = newCreates();
  await expectReadOnly(creates);
  // Long enough for the worker to poll for notifications, which writes.
  await sleep(3_000);
  await expectStored(standby, 2 * CREATES);
  await setReadOnly("off");
  await expectAccepted(creates);
  await expectStored(standby, 3 * CREATES);
  await expectNoPendingNotifications();
  expect(mailServer.received).toHaveLength(3 * CREATES);
  primary.expectNoExits();
});

/** Changes the setting for new sessions, and ends open ones. */
async function setReadOnly(state: "on" | "off"): Promise<void> {
  const url = `${standby.url}?options=-c%20default_transaction_read_only%3Doff`;
  await runSql(url, `ALTER DATABASE postgres SET default_transaction_read_only = ${state}`);
  await runSql(url, END_SESSIONS);
}

const expectNoPendingNotifications = () =>
  expect
    .poll(() => runSql(standby.url, "SELECT id FROM notifications WHERE state <> 'sent'"), {
      timeout: 60_000,
    })
    .toEqual([]);
