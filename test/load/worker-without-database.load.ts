import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { listEmails, openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import {
  type MailServer,
  openMailServer,
  openServicesWithMail,
  recipientsOf,
  startTestWorker,
} from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";

/** Longer than a worker needs to reconnect to the database. */
const RECONNECT_MS = 6_000;
/** Twice the time without a heartbeat after which a worker counts as stale. */
const LONG_OUTAGE_MS = 40_000;

test("after a long database outage, the emails of a running worker are not taken over, and an email sent during the outage is not repeated", async () => {
  const services = await openTestServices();
  const holder = await makeListingOwner(services);
  const create = async (name: string, numberOfGuests: number) =>
    holder.create(fixedStay(holder.listingId, { guestEmail: `${name}@example.com`, numberOfGuests }));
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
  await create("first", 1);
  await expect.poll(() => slow.rcptCount).toBe(1);
  slow.holdRcpt();
  await create("second", 2);
  await expect.poll(() => slow.rcptCount).toBe(2);
  const idle = await startWorkerBehindProxy(other);
  sender.proxy.cut();
  idle.proxy.cut();
  releaseFirst();
  await expect.poll(() => recipientsOf(slow)).toEqual(["first@example.com"]);
  await sleep(LONG_OUTAGE_MS);
  // The idle worker reconnects some seconds before the one that is sending.
  idle.proxy.restore();
  await sleep(RECONNECT_MS);
  sender.proxy.restore();
  await sleep(LONG_OUTAGE_MS / 2);
  slow.releaseRcpt();
  await expect.poll(() => listEmails(services)).toEqual([]);
  expect(recipientsOf(slow)).toEqual(["first@example.com", "second@example.com"]);
  expect(other.rcptCount).toBe(0);
  const takeovers = [...sender.lines, ...idle.lines].filter(({ message }) => message.startsWith("took over"));
  expect(takeovers).toEqual([]);
}, 200_000);
