import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { asOperator, openTestServices, stay } from "../factories.js";
import { DatabaseProxy } from "../gateway-harness.js";
import { makeHolder } from "../server/holders.js";
import { openPostOffice, type PostOffice, withMail, work } from "../server/post-office.js";

/** Longer than a worker needs to find the database again. */
const BACK_MS = 6_000;
/** As long as a worker may be silent before it counts as dead, twice. */
const LONG_MS = 40_000;

const eventually = <Result>(look: () => Result, timeout = 40_000) =>
  expect.poll(look, { timeout, interval: 50 });

const recipients = ({ received }: PostOffice) => received.flatMap(({ to }) => to);

test("the jobs of a worker that was without the database for long are not taken from it, and what it sent meanwhile is sent once", async () => {
  const services = await openTestServices();
  const holder = await makeHolder(services);
  const create = async (name: string, numberOfGuests: number) =>
    holder.create(stay(holder.listingId, { guestEmail: `${name}@example.com`, numberOfGuests }));
  const [slow, other] = [await openPostOffice(), await openPostOffice()];
  const join = async ({ url }: PostOffice) => {
    const proxy = await DatabaseProxy.start(services.db.url);
    onTestFinished(() => proxy.close());
    return { proxy, lines: await work(await withMail(services, url, { DATABASE_URL: proxy.url })) };
  };
  const its = await join(slow);
  const releaseFirst = slow.hold();
  await create("first", 1);
  await eventually(() => slow.begun).toBe(1);
  slow.hold();
  await create("second", 2);
  await eventually(() => slow.begun).toBe(2);
  const others = await join(other);
  its.proxy.cut();
  others.proxy.cut();
  releaseFirst();
  await eventually(() => recipients(slow)).toEqual(["first@example.com"]);
  await sleep(LONG_MS);
  // The other is back some seconds before the one that is sending.
  others.proxy.mend();
  await sleep(BACK_MS);
  its.proxy.mend();
  await sleep(LONG_MS / 2);
  slow.release();
  await eventually(() => asOperator(services).notifications.list()).toEqual([]);
  expect(recipients(slow)).toEqual(["first@example.com", "second@example.com"]);
  expect(other.begun).toBe(0);
  const takeovers = [...its.lines, ...others.lines].filter(({ message }) => message.startsWith("took over"));
  expect(takeovers).toEqual([]);
}, 200_000);

test("a worker that cannot write down what became of a job does so once the database is back", async () => {
  const services = await openTestServices();
  const holder = await makeHolder(services);
  const office = await openPostOffice();
  office.hold();
  office.refusals.push({ code: 451, text: "busy" });
  const proxy = await DatabaseProxy.start(services.db.url);
  onTestFinished(() => proxy.close());
  const lines = await work(await withMail(services, office.url, { DATABASE_URL: proxy.url }));
  await holder.create(stay(holder.listingId, { guestEmail: "guest@example.com" }));
  await eventually(() => office.begun).toBe(1);
  proxy.cut();
  office.release();
  const said = (beginning: string) => lines.filter(({ message }) => message.startsWith(beginning)).length;
  await eventually(() => said("cannot record the outcome")).toBe(1);
  proxy.mend();
  await eventually(() => recipients(office), 60_000).toEqual(["guest@example.com"]);
  await eventually(() => asOperator(services).notifications.list()).toEqual([]);
  expect(said("took over")).toBe(0);
}, 180_000);
