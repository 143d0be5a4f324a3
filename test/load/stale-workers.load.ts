import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { asOperator, listEmails, openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import {
  commandEnv,
  type MailServer,
  mailEnv,
  messageIdOf,
  openMailServer,
  openServicesWithMail,
  recipientsOf,
  startTestWorker,
} from "../support/mail-server.js";
import { spawnCli } from "../support/processes.js";
import { TcpProxy } from "../support/tcp-proxy.js";

/** Guaranteed time until what a killed worker was sending is taken over. */
const TAKEOVER_MS = 60_000;
/** Twice the time without a heartbeat after which a worker counts as stale. */
const LONG_MS = 40_000;
/** Longer than a worker needs to reconnect to the database. */
const RECONNECT_MS = 6_000;

/** Opens the core on a new database, with a key holder who creates forms whose guests get an email. */
async function openServices() {
  const services = await openTestServices();
  const holder = await makeListingOwner(services);
  return { services, create: (name: string) => holder.addForm({ guestEmail: `${name}@example.com` }) };
}

test("the emails of a worker killed while sending are taken over within 60 s, those of a slow worker are not", async () => {
  const { services, create } = await openServices();
  const [killed, slow, other] = [await openMailServer(), await openMailServer(), await openMailServer()];
  killed.holdRcpt();
  slow.holdRcpt();
  const env = commandEnv(services, { WORKER_CONCURRENCY: "1", SMTP_TIMEOUT_SECONDS: "120" });
  const start = ({ url }: MailServer) => spawnCli(["worker"], { env: { ...env, ...mailEnv(url) } });
  const form = await create("killed");
  // The last attempt: it must be repeated, because its worker was killed.
  await services.db.pool.query("UPDATE emails SET attempts = 24");
  const victim = start(killed);
  await expect.poll(() => killed.rcptCount).toBe(1);
  const slowWorker = start(slow);
  await create("slow");
  await expect.poll(() => slow.rcptCount).toBe(1);
  const sendingSince = performance.now();
  await start(other).waitForLine(/^Sending emails/, 60_000);
  const states = async () => (await listEmails(services)).map(({ state }) => state);
  expect(await states()).toEqual(["running", "running"]);
  const killedAt = performance.now();
  await victim.stop("SIGKILL");
  await expect.poll(() => recipientsOf(other), { timeout: TAKEOVER_MS }).toEqual(["killed@example.com"]);
  expect(performance.now() - killedAt).toBeLessThan(TAKEOVER_MS);
  expect(other.received[0]?.mail.messageId).toBe(messageIdOf(form.id));
  await sleep(LONG_MS - (performance.now() - sendingSince));
  expect(await states()).toEqual(["running"]);
  slow.releaseRcpt();
  await expect.poll(() => recipientsOf(slow)).toEqual(["slow@example.com"]);
  await expect.poll(states).toEqual([]);
  await slowWorker.stop();
  expect([killed.rcptCount, slow.rcptCount, other.rcptCount]).toEqual([1, 1, 1]);
}, 150_000);

test("an email whose worker was killed at 5 attempts in a row is given up and logged as an error, until an operator retries it", async () => {
  const { services, create } = await openServices();
  const mailServer = await openMailServer();
  const form = await create("guest");
  await services.db.pool.query(
    `UPDATE emails SET state = 'running', attempts = 1, crashes = 4, next_attempt_at = NULL,
       heartbeat_at = now() - interval '1 minute'`,
  );
  const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
  await expect
    .poll(() => lines)
    .toContainEqual({
      level: "error",
      facts: expect.objectContaining({
        channel: "emails",
        formId: form.id,
        crashes: 5,
        reason: "its worker crashed at each of 5 attempts in a row",
      }),
      message: "given up",
    });
  const [failed] = await listEmails(services);
  expect(failed?.state).toBe("failed");
  expect(recipientsOf(mailServer)).toEqual([]);
  await asOperator(services).emails.retry({ id: failed?.id ?? "" });
  await expect.poll(() => recipientsOf(mailServer)).toEqual(["guest@example.com"]);
});

test("an email claimed by a worker that never got the response is sent", async () => {
  const { services, create } = await openServices();
  const mailServer = await openMailServer();
  await startTestWorker(await openServicesWithMail(services, mailServer.url));
  await create("guest");
  await expect.poll(() => mailServer.received.length).toBe(1);
  await expect.poll(() => listEmails(services)).toEqual([]);
  // As if the connection was lost after the worker claimed the email, before it got the response.
  await services.db.pool.query("UPDATE emails SET state = 'running', heartbeat_at = now(), ended_at = NULL");
  await expect.poll(() => mailServer.received.length, { timeout: TAKEOVER_MS }).toBe(2);
}, 120_000);

test("after a long database outage, the emails of a running worker are not taken over, and an email sent during the outage is not repeated", async () => {
  const { services, create } = await openServices();
  const [slow, other] = [await openMailServer(), await openMailServer()];
  const startWorkerBehindProxy = async ({ url }: MailServer) => {
    const proxy = await TcpProxy.start(services.db.url);
    onTestFinished(() => proxy.close());
    return {
      proxy,
      lines: await startTestWorker(await openServicesWithMail(services, url, { DATABASE_URL: proxy.url })),
    };
  };
  const sender = await startWorkerBehindProxy(slow);
  const releaseFirst = slow.holdRcpt();
  await create("first");
  await expect.poll(() => slow.rcptCount).toBe(1);
  slow.holdRcpt();
  await create("second");
  await expect.poll(() => slow.rcptCount).toBe(2);
  const idle = await startWorkerBehindProxy(other);
  sender.proxy.cut();
  idle.proxy.cut();
  releaseFirst();
  await expect.poll(() => recipientsOf(slow)).toEqual(["first@example.com"]);
  await sleep(LONG_MS);
  // The idle worker reconnects some seconds before the one that is sending.
  idle.proxy.restore();
  await sleep(RECONNECT_MS);
  sender.proxy.restore();
  await sleep(LONG_MS / 2);
  slow.releaseRcpt();
  await expect.poll(() => listEmails(services)).toEqual([]);
  expect(recipientsOf(slow)).toEqual(["first@example.com", "second@example.com"]);
  expect(other.rcptCount).toBe(0);
  const takeovers = [...sender.lines, ...idle.lines].filter(({ message }) => message.startsWith("took over"));
  expect(takeovers).toEqual([]);
}, 200_000);
