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
import { type Answer, call, newStay } from "../fleet/client.js";
import { type Host, makeWorld, startHost, type World } from "../fleet/fleet.js";
import { type RunningProcess, spawnCli } from "../harness.js";
import { mailEnv, openMailServer } from "../server/mail-server.js";
import { Cluster } from "./postgres-cluster.js";
import { faultOf } from "./postgres-traffic.js";

const CREATES = 20;
const ANSWER_MS = 3_000;

interface Create {
  key: string;
  body: FormBody;
}

let primary: Cluster;
let standby: Cluster;
let world: World;
let onPrimary: Host;
let onStandby: Host;
let worker: RunningProcess;
/** What the primary acknowledged. */
const acknowledged: FormV1[] = [];
/** What no server has taken yet. */
let refused: Create[] = [];

beforeAll(async () => {
  primary = await Cluster.create();
  await migrate(primary.url);
  world = await makeWorld(primary.url);
  standby = await copyOf(primary);
  onPrimary = await startHost(world.env);
  onStandby = await startHost({ ...world.env, DATABASE_URL: standby.url });
});
afterAll(async () => {
  await Promise.all([onPrimary.process.stopOrKill(), onStandby.process.stopOrKill(), worker?.stopOrKill()]);
  await standby.remove();
  await primary.remove();
});

/** A streaming standby, made from the files of the cluster while that was at rest. */
async function copyOf(original: Cluster): Promise<Cluster> {
  const dataDir = await mkdtemp(join(tmpdir(), "guest-forms-standby-"));
  await original.end("SIGINT");
  execFileSync("cp", ["-a", `${original.dataDir}/.`, dataDir]);
  await writeFile(join(dataDir, "cluster/standby.signal"), "");
  await original.start();
  const { hostname, port, username, password } = new URL(original.url);
  const source = `host=${hostname} port=${port} user=${username} password=${password}`;
  return Cluster.create({ dataDir, settings: { primary_conninfo: source } });
}

const send = ({ url }: Host, { key, body }: Create): Promise<Answer> =>
  call(`${url}/v1/forms`, world.key.key, { method: "POST", body, headers: { "Idempotency-Key": key } });

const read = ({ url }: Host, path: string): Promise<Answer> => call(`${url}${path}`, world.key.key);

const newCreates = (count: number): Create[] =>
  Array.from({ length: count }, () => ({
    key: randomUUID(),
    body: { ...newStay(world.listing.id), guestEmail: `${randomUUID()}@example.com` },
  }));

/** Sends creates and an update, which must all be refused in the envelope; and reads, which must not. */
async function isReadOnly(host: Host, creates: Create[]): Promise<void> {
  const [form] = acknowledged;
  const update = call(`${host.url}/v1/forms/${form?.id}`, world.key.key, {
    method: "PUT",
    body: newStay(world.listing.id),
  });
  const answers = await Promise.all([...creates.map((create) => send(host, create)), update]);
  for (const answer of answers) {
    expect(answer.status).toBe(503);
    expect(faultOf(answer)).toBeUndefined();
    expect(answer.cameAt - answer.sentAt).toBeLessThan(ANSWER_MS);
  }
  const paths = ["/v1/forms?limit=5", "/v1/listings", `/v1/listings/${world.listing.id}`];
  for (const path of [...paths, `/v1/forms/${form?.id}`]) {
    expect([path, (await read(host, path)).status]).toEqual([path, 200]);
  }
}

async function withClient<Result>(
  { url }: Cluster,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return work(client).finally(() => client.end());
}

/** Rows of each table that a create writes to, apart from its notification. */
const written = (cluster: Cluster): Promise<number[]> =>
  withClient(cluster, async (client) => {
    const { rows } = await client.query<Record<string, number>>(
      `SELECT (SELECT count(*)::int FROM forms) AS forms, (SELECT count(*)::int FROM creations) AS creations,
        (SELECT count(*)::int FROM idempotency_keys) AS keys,
        (SELECT count(*)::int FROM audit_entries WHERE action LIKE 'form.%') AS audited`,
    );
    return Object.values(rows[0] ?? {});
  });

it("a streaming standby answers reads, and refuses what writes with 503", async () => {
  for (const create of newCreates(CREATES)) {
    const answer = await send(onPrimary, create);
    expect(answer.status).toBe(201);
    acknowledged.push(answer.json as FormV1);
  }
  const last = `/v1/forms/${acknowledged.at(-1)?.id}`;
  await expect.poll(async () => (await read(onStandby, last)).status, { timeout: 20_000 }).toBe(200);
  for (const form of acknowledged) {
    expect((await read(onStandby, `/v1/forms/${form.id}`)).json).toEqual(form);
  }
  refused = newCreates(CREATES);
  await isReadOnly(onStandby, refused);
  expect(await written(primary)).toEqual(Array(4).fill(CREATES));
  console.info(`A standby: ${CREATES} forms read, ${CREATES} creates and an update answered 503`);
});

it("a standby that is promoted takes the creates that it refused, each once", async () => {
  await primary.end("SIGKILL");
  await withClient(standby, (client) => client.query("SELECT pg_promote()"));
  await expect
    .poll(async () => (await send(onStandby, refused[0] as Create)).status, { timeout: 20_000 })
    .toBe(201);
  for (const create of refused) expect((await send(onStandby, create)).status).toBe(201);
  expect(await written(standby)).toEqual(Array(4).fill(2 * CREATES));
  console.info(
    `A standby promoted: ${CREATES} creates refused before taken once each, none lost of ${CREATES}`,
  );
});

it("a database that turns read-only refuses what writes, no process ends, and all goes on when it is writable", async () => {
  const office = await openMailServer();
  worker = spawnCli(["worker"], { env: { ...world.env, DATABASE_URL: standby.url, ...mailEnv(office.url) } });
  await worker.waitForLine(/^Sending notifications/, 60_000);
  await expect.poll(waitingJobs, { timeout: 30_000 }).toBe(0);
  await turn("on");
  const creates = newCreates(CREATES);
  await isReadOnly(onStandby, creates);
  // Long enough for the worker to look for jobs, which writes.
  await sleep(3_000);
  expect(await written(standby)).toEqual(Array(4).fill(2 * CREATES));
  await turn("off");
  for (const create of creates) {
    await expect.poll(async () => (await send(onStandby, create)).status, { timeout: 10_000 }).toBe(201);
  }
  expect(await written(standby)).toEqual(Array(4).fill(3 * CREATES));
  await expect.poll(waitingJobs, { timeout: 60_000, interval: 250 }).toBe(0);
  expect(office.received).toHaveLength(3 * CREATES);
  console.info(
    `A database read-only for 3 s: ${CREATES} creates refused and then taken once each, the worker at work`,
  );
});

/** For every session from now on: those there are are ended. */
const turn = (state: "on" | "off") =>
  withClient(standby, async (client) => {
    await client.query("SET default_transaction_read_only = off");
    await client.query(`ALTER DATABASE postgres SET default_transaction_read_only = ${state}`);
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND application_name <> 'guest-forms owner' AND backend_type = 'client backend'`,
    );
  });

const waitingJobs = () =>
  withClient(standby, async (client) => {
    const { rows } = await client.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM notifications WHERE state <> 'sent'",
    );
    return rows[0]?.n;
  });
