import pg from "pg";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { Services } from "../../server/context.js";
import { startWorker } from "../../server/worker.js";
import { listNotifications, openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock } from "../support/locks.js";
import { openServicesWithMail, startMailServer } from "../support/mail-server.js";

const ROUNDS = 10;
const log = { info() {}, warn() {}, error() {} };

let services: Services;
/** The same database, with a mail server. */
let mailServices: Services;
let observer: pg.Client;

beforeAll(async () => {
  services = await openTestServices();
  const mailServer = await startMailServer();
  mailServices = await openServicesWithMail(services, mailServer.url);
  observer = new pg.Client({ connectionString: services.db.url });
  // Dropping the database terminates it.
  observer.on("error", () => {});
  await observer.connect();
  return async () => {
    await observer.end();
    await mailServer.close();
  };
});

const OTHER_BACKENDS =
  "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

async function otherBackends(): Promise<number[]> {
  const { rows } = await observer.query<{ pid: number }>(`SELECT pid ${OTHER_BACKENDS}`);
  return rows.map(({ pid }) => pid);
}

const uncaught: unknown[] = [];

test("a stopped worker leaves no connections open, and terminating its backends right after causes no uncaught exception", async () => {
  const recordError = (error: unknown) => void uncaught.push(error);
  process.on("uncaughtException", recordError);
  onTestFinished(() => void process.off("uncaughtException", recordError));
  for (let round = 0; round < ROUNDS; round++) {
    const before = new Set(await otherBackends());
    const worker = await startWorker(services, log);
    expect(
      (await otherBackends()).some((pid) => !before.has(pid)),
      "it has its own connections",
    ).toBe(true);
    await worker.stop();
    const left = (await otherBackends()).filter((pid) => !before.has(pid));
    await observer.query(`SELECT pg_terminate_backend(pid) ${OTHER_BACKENDS}`);
    expect(left, `connections after stop, round ${round}`).toEqual([]);
  }
  await expect.poll(otherBackends).toEqual([]);
  expect(uncaught).toEqual([]);
});

test("a running worker keeps sending after it loses all its connections", {
  timeout: 120_000,
}, async () => {
  const worker = await startWorker(mailServices, log);
  onTestFinished(() => worker.stop());
  for (let round = 0; round < 3; round++) {
    await observer.query(`SELECT pg_terminate_backend(pid) ${OTHER_BACKENDS}`);
    await expect.poll(async () => (await otherBackends()).length).toBeGreaterThan(0);
  }
  await addNotification();
  // Takes up to a minute if a lost connection had claimed it.
  await expect.poll(countUnsent, { timeout: 70_000 }).toBe(0);
});

test("a worker that loses its connections before its first poll keeps sending", async () => {
  const lock = await holdLock(services, "LOCK TABLE notifications");
  const worker = await startWorker(mailServices, log);
  onTestFinished(() => worker.stop());
  const waiting = `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  const terminateBlocked = async () =>
    (await observer.query(`SELECT pg_terminate_backend(pid) ${waiting}`)).rowCount ?? 0;
  await expect.poll(terminateBlocked).toBeGreaterThan(0);
  await lock.rollback();
  await addNotification();
  await expect.poll(countUnsent).toBe(0);
});

const addNotification = async () => {
  const owner = await makeListingOwner(services);
  await owner.create(owner.body);
};

const countUnsent = async () => (await listNotifications(services)).length;
