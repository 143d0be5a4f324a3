import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { asOperator, fixedStay, openTestServices } from "../factories.js";
import { DatabaseProxy } from "../gateway-harness.js";
import { makeListingOwner } from "../server/listing-owner.js";
import {
  type MailServer,
  openMailServer,
  openServicesWithMail,
  startTestWorker,
} from "../server/mail-server.js";

/** Longer than a worker needs to find the database again. */
const BACK_MS = 6_000;
/** As long as a worker may be silent before it counts as dead, twice. */
const LONG_MS = 40_000;

const eventually = <Result>(look: () => Result, timeout = 40_000) =>
  expect.poll(look, { timeout, interval: 50 });

const recipients = ({ received }: MailServer) => received.flatMap(({ to }) => to);

test("the jobs of a worker that was without the database for long are not taken from it, and what it sent meanwhile is sent once", async () => {
  const services = await openTestServices();
  const holder = await makeListingOwner(services);
  const create = async (name: string, numberOfGuests: number) =>
    holder.create(fixedStay(holder.listingId, { guestEmail: `${name}@example.com`, numberOfGuests }));
  const [slow, other] = [await openMailServer(), await openMailServer()];
  const join = async ({ url }: MailServer) => {
    const proxy = await DatabaseProxy.start(services.db.url);
    onTestFinished(() => proxy.close());
    return {
      proxy,
      lines: await startTestWorker(await openServicesWithMail(services, url, { DATABASE_URL: proxy.url })),
    };
  };
  const its = await join(slow);
  const releaseFirst = slow.holdRcpt();
  await create("first", 1);
  await eventually(() => slow.rcptCount).toBe(1);
  slow.holdRcpt();
  await create("second", 2);
  await eventually(() => slow.rcptCount).toBe(2);
  const others = await join(other);
  its.proxy.cut();
  others.proxy.cut();
  releaseFirst();
  await eventually(() => recipients(slow)).toEqual(["first@example.com"]);
  await sleep(LONG_MS);
  // The other is back some seconds before the one that is sending.
  others.proxy.restore();
  await sleep(BACK_MS);
  its.proxy.restore();
  await sleep(LONG_MS / 2);
  slow.releaseRcpt();
  await eventually(() => asOperator(services).notifications.list()).toEqual([]);
  expect(recipients(slow)).toEqual(["first@example.com", "second@example.com"]);
  expect(other.rcptCount).toBe(0);
  const takeovers = [...its.lines, ...others.lines].filter(({ message }) => message.startsWith("took over"));
  expect(takeovers).toEqual([]);
}, 200_000);

test("a worker that cannot write down what became of a job does so once the database is back", async () => {
  const services = await openTestServices();
  const holder = await makeListingOwner(services);
  const office = await openMailServer();
  office.holdRcpt();
  office.rcptErrors.push({ code: 451, text: "busy" });
  const proxy = await DatabaseProxy.start(services.db.url);
  onTestFinished(() => proxy.close());
  const lines = await startTestWorker(
    await openServicesWithMail(services, office.url, { DATABASE_URL: proxy.url }),
  );
  await holder.create(fixedStay(holder.listingId, { guestEmail: "guest@example.com" }));
  await eventually(() => office.rcptCount).toBe(1);
  proxy.cut();
  office.releaseRcpt();
  const said = (beginning: string) => lines.filter(({ message }) => message.startsWith(beginning)).length;
  await eventually(() => said("cannot record the outcome")).toBe(1);
  proxy.restore();
  await eventually(() => recipients(office), 60_000).toEqual(["guest@example.com"]);
  await eventually(() => asOperator(services).notifications.list()).toEqual([]);
  expect(said("took over")).toBe(0);
}, 180_000);
