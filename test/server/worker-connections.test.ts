import pg from "pg";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { Services } from "../../server/context.js";
import { startWorker } from "../../server/worker.js";
import { asOperator, openTestServices } from "../factories.js";
import { makeListingOwner } from "./listing-owner.js";
import { openServicesWithMail, startMailServer } from "./mail-server.js";

const ROUNDS = 10;
const log = { info() {}, warn() {}, error() {} };

let services: Services;
/** The same database, with a mail server. */
let mailing: Services;
let onlooker: pg.Client;

beforeAll(async () => {
  services = await openTestServices();
  const office = await startMailServer();
  mailing = await openServicesWithMail(services, office.url);
  onlooker = new pg.Client({ connectionString: services.db.url });
  // It ends with the database, at the latest.
  onlooker.on("error", () => {});
  await onlooker.connect();
  return async () => {
    await onlooker.end();
    await office.close();
  };
});

const OTHERS =
  "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

async function others(): Promise<number[]> {
  const { rows } = await onlooker.query<{ pid: number }>(`SELECT pid ${OTHERS}`);
  return rows.map(({ pid }) => pid);
}

const uncaught: unknown[] = [];

test("a stopped worker leaves no connection, and the end of Postgres right after it goes unnoticed", async () => {
  const note = (error: unknown) => void uncaught.push(error);
  process.on("uncaughtException", note);
  onTestFinished(() => void process.off("uncaughtException", note));
  for (let round = 0; round < ROUNDS; round++) {
    const before = new Set(await others());
    const worker = await startWorker(services, log);
    expect(
      (await others()).some((pid) => !before.has(pid)),
      "it has connections of its own",
    ).toBe(true);
    await worker.stop();
    const left = (await others()).filter((pid) => !before.has(pid));
    await onlooker.query(`SELECT pg_terminate_backend(pid) ${OTHERS}`);
    expect(left, `connections after stop, round ${round}`).toEqual([]);
  }
  await expect.poll(others).toEqual([]);
  expect(uncaught).toEqual([]);
});

test("the end of Postgres under a running worker does not end its process, and it works on", {
  timeout: 120_000,
}, async () => {
  const worker = await startWorker(mailing, log);
  onTestFinished(() => worker.stop());
  for (let round = 0; round < 3; round++) {
    await onlooker.query(`SELECT pg_terminate_backend(pid) ${OTHERS}`);
    await expect.poll(async () => (await others()).length).toBeGreaterThan(0);
  }
  await addJob();
  // Within a minute, where a connection was lost that held it.
  await expect.poll(jobs, { timeout: 70_000 }).toBe(0);
});

test("a worker that loses the database before it has looked for jobs once works on", async () => {
  const blocker = new pg.Client({ connectionString: services.db.url });
  await blocker.connect();
  await blocker.query("BEGIN");
  await blocker.query("LOCK TABLE notifications");
  const worker = await startWorker(mailing, log);
  onTestFinished(() => worker.stop());
  const waiting = `FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  const ended = async () =>
    (await onlooker.query(`SELECT pg_terminate_backend(pid) ${waiting}`)).rowCount ?? 0;
  await expect.poll(ended).toBeGreaterThan(0);
  await blocker.end();
  await addJob();
  await expect.poll(jobs).toBe(0);
});

const addJob = async () => {
  const owner = await makeListingOwner(services);
  await owner.create(owner.body);
};

const jobs = async () => (await asOperator(services).notifications.list()).length;
