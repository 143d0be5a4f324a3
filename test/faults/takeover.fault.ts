import { describe, expect, test } from "vitest";
import { asOperator, openTestServices, stay } from "../factories.js";
import { spawnCli } from "../harness.js";
import { makeHolder } from "../server/holders.js";
import { commandEnv, openPostOffice, type PostOffice, withMail, work } from "../server/post-office.js";

/** What is promised of a killed worker's jobs. */
const MINUTE_MS = 60_000;
/** As long as a worker may be silent before it counts as dead, twice. */
const LONG_MS = 40_000;

const eventually = <Result>(look: () => Result, timeout = 40_000) =>
  expect.poll(look, { timeout, interval: 50 });

const recipients = ({ received }: PostOffice) => received.flatMap(({ to }) => to);

describe("the jobs of a worker", () => {
  test("that was killed in mid-send are taken over within a minute; those of a slow one are not", async () => {
    const services = await openTestServices();
    const holder = await makeHolder(services);
    const create = (guestEmail: string) => holder.create(stay(holder.listingId, { guestEmail }));
    const [killed, slow, other] = [await openPostOffice(), await openPostOffice(), await openPostOffice()];
    killed.hold();
    slow.hold();
    const env = commandEnv(services, {
      WORKER_CONCURRENCY: "1",
      SMTP_TIMEOUT_SECONDS: "120",
    });
    const start = ({ url }: PostOffice) => spawnCli(["worker"], { env: { ...env, SMTP_URL: url } });
    const { form } = await create("killed@example.com");
    // Of its last attempt, which must not be lost with the worker.
    await services.db.pool.query("UPDATE graphile_worker._private_jobs SET attempts = max_attempts - 1");
    const victim = start(killed);
    await eventually(() => killed.begun).toBe(1);
    const slowWorker = start(slow);
    await create("slow@example.com");
    await eventually(() => slow.begun).toBe(1);
    const begun = performance.now();
    await start(other).waitForLine(/Sending notifications/, 60_000);
    const states = async () => (await asOperator(services).notifications.list()).map(({ state }) => state);
    expect(await states()).toEqual(["running", "running"]);
    const at = performance.now();
    await victim.stop("SIGKILL");
    await eventually(() => recipients(other), MINUTE_MS).toEqual(["killed@example.com"]);
    expect(performance.now() - at).toBeLessThan(MINUTE_MS);
    expect(other.received[0]?.mail.messageId).toBe(`<form-${form.id}@guest-forms>`);
    await new Promise((resolve) => setTimeout(resolve, LONG_MS - (performance.now() - begun)));
    expect(await states()).toEqual(["running"]);
    slow.release();
    await eventually(() => recipients(slow)).toEqual(["slow@example.com"]);
    await eventually(states).toEqual([]);
    await slowWorker.stop();
    expect([killed.begun, slow.begun, other.begun]).toEqual([1, 1, 1]);
  }, 150_000);

  test("that it was given without hearing of it are done all the same", async () => {
    const services = await openTestServices();
    const holder = await makeHolder(services);
    const office = await openPostOffice();
    await work(await withMail(services, office.url));
    const name = async () => (await services.db.pool.query("SELECT id FROM workers")).rows[0]?.id;
    await eventually(name).toBeTruthy();
    const { form } = await holder.create(stay(holder.listingId, { guestEmail: "guest@example.com" }));
    await eventually(() => office.received.length).toBe(1);
    // As where the connection was lost over the answer that gave it the job.
    await services.db.pool.query(
      `SELECT graphile_worker.add_job('form-created', json_build_object('formId', $1::text), run_at => now() + interval '1 hour')`,
      [form.id],
    );
    await services.db.pool.query(
      "UPDATE graphile_worker._private_jobs SET run_at = now(), attempts = 1, locked_at = now(), locked_by = $1",
      [await name()],
    );
    await eventually(() => office.received.length, MINUTE_MS).toBe(2);
  }, 120_000);
});

test("a worker that was stopped is forgotten, and one long dead too", async () => {
  const services = await openTestServices();
  const ids = async () => (await services.db.pool.query("SELECT id FROM workers")).rows.map(({ id }) => id);
  await services.db.pool.query("INSERT INTO workers (id, seen_at) VALUES ('old', now() - interval '2 days')");
  const worker = spawnCli(["worker"], { env: commandEnv(services) });
  await worker.waitForLine(/Sending notifications/, 60_000);
  await eventually(async () => (await ids()).filter((id) => id !== "old").length).toBe(1);
  await eventually(async () => (await ids()).includes("old"), 30_000).toBe(false);
  expect((await worker.stop()).code).toBe(0);
  expect(await ids()).toEqual([]);
}, 120_000);
