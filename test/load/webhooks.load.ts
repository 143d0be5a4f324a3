import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Services } from "../../server/access/context.js";
import { asOperator, asUser, openTestServices } from "../support/factories.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { sendRequest } from "../support/http-client.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { commandEnv } from "../support/mail-server.js";
import { spawnCli } from "../support/processes.js";
import { scale } from "../support/rounds.js";
import { uniqueStay } from "../support/stays.js";
import { openReceiver, type ReceivedWebhook } from "../support/webhook-receiver.js";

/** Guaranteed time until what a killed worker was sending is sent by another. */
const TAKEOVER_MS = 60_000;
const ALLOWED = { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };

const openServices = () => openTestServices(ALLOWED);

async function startWorkerProcess(services: Services) {
  const worker = spawnCli(["worker"], { env: commandEnv(services, { ...ALLOWED, LOG_LEVEL: "warn" }) });
  await worker.waitForLine(/^Sending/, 60_000);
  return worker;
}

/** The number of deliveries per state. */
async function countStates({ db }: Services): Promise<Record<string, number>> {
  const { rows } = await db.pool.query("SELECT state, count(*)::int FROM webhook_deliveries GROUP BY 1");
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

const formIdOf = ({ event: { data } }: ReceivedWebhook) => ("form" in data ? data.form.id : "");

test("a delivery whose worker is killed after the receiver has it, and before that is recorded, is sent again with the same webhook-id", async () => {
  const services = await openServices();
  const owner = await makeListingOwner(services);
  const held: (() => void)[] = [];
  const receiver = await openReceiver((response) => void held.push(() => response.writeHead(204).end()));
  const { secret } = await asUser(services, owner.userId).webhooks.create({ url: receiver.url });
  receiver.secrets.push(secret);
  const victim = await startWorkerProcess(services);
  const form = await owner.addForm();
  await expect.poll(() => held.length, { timeout: 10_000 }).toBe(1);
  await victim.stop("SIGKILL");
  receiver.respond = (response) => response.writeHead(204).end();
  const other = await startWorkerProcess(services);
  await expect.poll(() => receiver.received.length, { timeout: TAKEOVER_MS }).toBe(2);
  await expect.poll(() => countStates(services)).toEqual({ sent: 1 });
  const [first, second] = receiver.received;
  expect(second?.id).toBe(first?.id);
  expect(receiver.received.map(formIdOf)).toEqual([form.id, form.id]);
  expect(receiver.received.map(({ signedBy }) => signedBy)).toEqual([[secret], [secret]]);
  await other.stop();
}, 120_000);

test("a gateway that is killed while it creates forms leaves an event for each form that it committed, and no other", async () => {
  const fixture = await makeFixture(undefined, ALLOWED);
  const { services, key } = fixture;
  const receiver = await openReceiver();
  await asOperator(await openTestServices({ ...ALLOWED, DATABASE_URL: services.db.url })).webhooks.create({
    url: receiver.url,
  });
  for (let round = 0; round < scale(4); round++) {
    const { url, process } = await startGatewayProcess(fixture.env);
    const sending = Array.from({ length: 20 }, () =>
      sendRequest(`${url}/v1/forms`, key.key, { method: "POST", body: uniqueStay(fixture.listing.id) }),
    );
    const all = Promise.allSettled(sending);
    await Promise.any(sending);
    await process.stop("SIGKILL");
    await all;
  }
  const { rows } = await services.db.pool.query("SELECT id::text FROM forms");
  const forms: string[] = rows.map(({ id }) => id).sort();
  const worker = await startWorkerProcess(services);
  await expect.poll(() => countStates(services), { timeout: 30_000 }).toEqual({ sent: forms.length });
  await worker.stop();
  expect(receiver.received.map(formIdOf).sort()).toEqual(forms);
  expect(receiver.errors).toEqual([]);
}, 300_000);

test("thousands of events to 50 endpoints all arrive, correctly signed and each with one webhook-id, while one of two workers is killed every 5 s", async () => {
  const EVENTS = scale(2_000);
  const services = await openServices();
  const owners = await Promise.all(Array.from({ length: 50 }, () => makeListingOwner(services)));
  const receiver = await openReceiver();
  /** The secret of each endpoint, by its owner. */
  const secrets = new Map<string, string>();
  for (const owner of owners) {
    const url = `${receiver.url}/${owner.userId}`;
    secrets.set(owner.userId, (await asUser(services, owner.userId).webhooks.create({ url })).secret);
  }
  receiver.secrets.push(...secrets.values());
  const owned = new Map<string, string>();
  let victim = await startWorkerProcess(services);
  const survivor = await startWorkerProcess(services);
  let isKilling = true;
  let kills = 0;
  const killing = (async () => {
    while (isKilling) {
      await sleep(5_000);
      await victim.stop("SIGKILL");
      kills++;
      victim = await startWorkerProcess(services);
    }
  })();
  const started = performance.now();
  for (let created = 0; created < EVENTS; created += owners.length) {
    const forms = await Promise.all(owners.map(async (owner) => ({ owner, form: await owner.addForm() })));
    for (const { owner, form } of forms) owned.set(form.id, owner.userId);
  }
  await expect
    .poll(() => new Set(receiver.received.map(formIdOf)).size, { timeout: 240_000, interval: 500 })
    .toBe(owned.size);
  // At least one, also if all has arrived before the first.
  await expect.poll(() => kills, { timeout: 20_000 }).toBeGreaterThan(0);
  isKilling = false;
  await killing;
  await expect.poll(() => countStates(services), { timeout: TAKEOVER_MS }).toEqual({ sent: owned.size });
  const seconds = (performance.now() - started) / 1000;
  const ids = new Map<string, Set<string>>();
  for (const request of receiver.received) {
    const formId = formIdOf(request);
    expect(request.signedBy).toEqual([secrets.get(owned.get(formId) ?? "")]);
    ids.set(formId, (ids.get(formId) ?? new Set()).add(request.id));
  }
  expect([...ids.values()].every(({ size }) => size === 1)).toBe(true);
  expect(receiver.errors).toEqual([]);
  const repeated = receiver.received.length - owned.size;
  console.info(`${owned.size} events in ${seconds.toFixed(1)} s, ${kills} kills, ${repeated} sent again`);
  await Promise.all([survivor.stop(), victim.stop()]);
}, 600_000);

test("with 1,000 endpoints of which 100 hang, the deliveries to the others start within 2 s of the commit", async () => {
  const PER_OWNER = 20;
  const services = await openServices();
  const owners = await Promise.all(Array.from({ length: 1_000 / PER_OWNER }, () => makeListingOwner(services)));
  const hanging = await openReceiver(() => {});
  const others = await openReceiver();
  const isHanging = (owner: ListingOwner) => owners.indexOf(owner) % 10 === 0;
  for (const owner of owners) {
    const url = isHanging(owner) ? hanging.url : others.url;
    const { webhooks } = asUser(services, owner.userId);
    await Promise.all(Array.from({ length: PER_OWNER }, () => webhooks.create({ url })));
  }
  const worker = await startWorkerProcess(services);
  for (const owner of owners.filter(isHanging)) for (let count = 0; count < 10; count++) await owner.addForm();
  // As many as the owners of the 100 endpoints may have in flight.
  await expect.poll(() => hanging.received.length, { timeout: 10_000 }).toBeGreaterThanOrEqual(150);
  const committed = new Map<string, number>();
  for (let round = 0; round < scale(1); round++) {
    for (const owner of owners.filter((each) => !isHanging(each))) {
      const { id } = await owner.addForm();
      committed.set(id, performance.now());
      await sleep(100);
    }
  }
  const expected = committed.size * PER_OWNER;
  await expect.poll(() => others.received.length, { timeout: 20_000 }).toBe(expected);
  const waits = others.received.map((request) => request.at - (committed.get(formIdOf(request)) ?? 0));
  console.info(`longest wait ${Math.round(Math.max(...waits))} ms`);
  expect(Math.max(...waits)).toBeLessThan(2_000);
  await expect.poll(async () => (await countStates(services)).sent, { timeout: 10_000 }).toBe(expected);
  await worker.stop("SIGKILL");
}, 300_000);
