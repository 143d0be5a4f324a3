import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { FormV1 } from "../../sdk/src/index.js";
import { errorEnvelope, startFaultProxy } from "../sdk/fault-proxy.js";
import { afterFile } from "../support/after-file.js";
import { asOperator, asUser, makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import {
  type MailServer,
  mailEnv,
  openMailServer,
  openServicesWithMail,
  startTestWorker,
} from "../support/mail-server.js";
import { spawnNode } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import {
  changeBookings,
  makeBookings,
  type StoryBooking,
  type StoryListing,
  stayOf,
  tomorrowIn,
} from "./booking-story.js";
import { killAtRequest, writeRecipe } from "./recipes.js";

// The year of a property manager, with what the guides say and nothing else: half of the bookings by the recipe with the SDK, half
// by a program without it. Both are killed, and lose what they have stored.

const { FORM_URL_TEMPLATE } = mailEnv("");
const ZONES = ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "America/New_York", "Asia/Tokyo"];

/** A rate limit that a fast machine meets, in a window that a test can wait for. */
const gateway = await startTestGateway({ FORM_URL_TEMPLATE, RATE_LIMIT_MAX: 400, RATE_LIMIT_WINDOW_SECONDS: 4 });
const services = await gateway.services();
const operator = asOperator(services);
const { userId, key, readOnlyKey } = await gateway.addKeyHolder();
const listings: StoryListing[] = [];
for (let n = 0; n < 10; n++)
  listings.push(await makeListing(services, userId, { timezone: ZONES[n % ZONES.length] ?? "" }));
const timezones = new Map(listings.map(({ id, timezone }) => [id, timezone]));

/** A program with a folder and a proxy of its own. */
async function makeProgram(name: string, apiKey: string, prepare: (folder: string) => Promise<string>) {
  const folder = await makeTempFolder(name);
  const file = await prepare(folder);
  const proxy = await startFaultProxy(gateway);
  afterFile(() => proxy.close());
  const env = { GUEST_FORMS_API_KEY: apiKey, GUEST_FORMS_BASE_URL: proxy.url };
  const start = () => spawnNode([file], { cwd: folder, env });
  return {
    /** The path of a file in the program's folder. */
    path: (file: string) => join(folder, file),
    /** Runs it until it ends, and returns the lines of its output, sorted. It meets the rate limit on any machine. */
    async run(): Promise<string[]> {
      proxy.injectNext(errorEnvelope(429, "RATE_LIMITED", { "retry-after": "1" }));
      const { code, stdout, stderr } = await start().done;
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      return stdout.trim().split("\n").filter(Boolean).sort();
    },
    kill: (position: number) => killAtRequest(proxy, position, start),
  };
}

const recipe = (heading: string) => (folder: string) => writeRecipe(folder, heading);
const withSdk = await makeProgram("sdk", key, recipe("Sync bookings"));
const { key: secondKey } = await gateway.issueKey(userId);
const withFetch = await makeProgram("fetch", secondKey, async () =>
  join(packageRoot(), "test/release/sync-with-fetch.mjs"),
);
const nightly = await makeProgram("nightly", readOnlyKey, recipe("Catch up every night"));
const arrivals = await makeProgram("arrivals", readOnlyKey, recipe("Who arrives tomorrow and has not registered"));

/** Hands each program its bookings. The one without the SDK has instants. */
async function hand(bookings: readonly StoryBooking[]): Promise<void> {
  const [sdk, plain] = (["sdk", "fetch"] as const).map((name) => bookings.filter(({ client }) => client === name));
  const instants = plain?.map((booking) => {
    const { checkInDate, checkOutDate } = stayOf(booking, timezones);
    return { ...booking, checkIn: checkInDate, checkOut: checkOutDate };
  });
  await writeFile(withSdk.path("bookings.json"), JSON.stringify(sdk));
  await writeFile(withFetch.path("bookings.json"), JSON.stringify(instants));
}

/** Syncs all bookings: both programs are killed at this request, the store is lost, and both run again. */
async function syncAndKill(position: number): Promise<void> {
  await Promise.all([withSdk.kill(position), withFetch.kill(position)]);
  const { size } = await readForms();
  expect(size, "killed in the middle").toBeGreaterThan(0);
  await rm(withFetch.path("store.json"), { force: true });
  await Promise.all([withSdk.run(), withFetch.run()]);
}

/** All forms of the key holder by the booking's id, of which each has one. */
async function readForms(): Promise<Map<string, FormV1>> {
  const forms: FormV1[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await asUser(services, userId).forms.list({ limit: 100, cursor });
    forms.push(...page.items);
    cursor = page.nextCursor;
  }
  const byBooking = new Map(forms.map((form) => [String(form.externalId), form]));
  expect(byBooking.size, "one form per booking").toBe(forms.length);
  return byBooking;
}

/** Asserts that each booking has one form, as the booking is, and returns them. */
async function expectForms(bookings: readonly StoryBooking[], completed: ReadonlySet<string>) {
  const forms = await readForms();
  expect([...forms.keys()].sort()).toEqual(bookings.map(({ id }) => id).sort());
  for (const booking of bookings) {
    const status = booking.isCancelled ? "CANCELLED" : completed.has(booking.id) ? "COMPLETED" : "SENT";
    expect(forms.get(booking.id), booking.id).toMatchObject({ ...stayOf(booking, timezones), status });
  }
  return forms;
}

/** Waits for the mail, and asserts that each of these guests has got the link of their own booking, once. */
async function expectMail({ received }: MailServer, expected: readonly string[], forms: ReadonlyMap<string, FormV1>) {
  const bookingOf = new Map([...forms.values()].map(({ publicId, externalId }) => [publicId, externalId]));
  await expect.poll(() => received.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(expected.length);
  await expect.poll(async () => (await operator.emails.list({ limit: 1 })).items).toEqual([]);
  const got = received.map(({ to, mail }) => {
    const [, publicId = ""] = /https:\/\/forms\.example\.com\/([\w-]{21})/.exec(mail.text ?? "") ?? [];
    return `${to.join()} ${bookingOf.get(publicId)}`;
  });
  expect(got.sort()).toEqual([...expected].sort());
}

const invitationsOf = (bookings: readonly StoryBooking[]) =>
  bookings.flatMap(({ id, guestEmail }) => (guestEmail ? [`${guestEmail} ${id}`] : []));

/** Asserts that guests without an address were sent, by the program without the SDK, the link of their own booking. */
async function expectLinks(bookings: readonly StoryBooking[], forms: ReadonlyMap<string, FormV1>): Promise<void> {
  const text = await readFile(withFetch.path("links.ndjson"), "utf8");
  const sent: { id: string; url: string }[] = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  for (const { id, url } of sent)
    expect(url, id).toBe(FORM_URL_TEMPLATE.replace("{publicId}", forms.get(id)?.publicId ?? ""));
  const unaddressed = bookings.filter(({ client, guestEmail }) => client === "fetch" && !guestEmail);
  expect([...new Set(sent.map(({ id }) => id))].sort()).toEqual(unaddressed.map(({ id }) => id).sort());
}

/** Of each table, a digest that changes with every write, except the table in which workers say that they live. */
async function snapshot() {
  const { "public.worker_activity": _, ...tables } = await gateway.snapshotTables();
  return tables;
}

const statusLines = (forms: ReadonlyMap<string, FormV1>) =>
  [...forms].map(([id, { status }]) => `${id} ${status}`).sort();

test("400 bookings that are cancelled, rebooked, moved and get their address late have one form each and every guest the own link, although the programs are killed and lose their store", {
  timeout: 300_000,
}, async () => {
  const mailServer = await openMailServer();
  await startTestWorker(await openServicesWithMail(services, mailServer.url));
  const days = () => ZONES.map(tomorrowIn).join();
  const today = days();

  const made = makeBookings(listings);
  await hand(made);
  await syncAndKill(300);
  const before = await expectForms(made, new Set());
  await expectMail(mailServer, invitationsOf(made), before);
  await nightly.kill(2);
  expect(await nightly.run()).toEqual(statusLines(before));

  const ofFate = (name: StoryBooking["fate"]) => made.filter(({ fate }) => fate === name).map(({ id }) => id);
  const completed = new Set([
    ...ofFate("rebooked").slice(0, 10),
    ...ofFate("unchanged").slice(0, 10),
    ...ofFate("tomorrow").slice(0, 3),
  ]);
  for (const id of completed) await operator.forms.setStatus({ id: before.get(id)?.id ?? "", status: "COMPLETED" });

  const changed = changeBookings(made, listings);
  await hand(changed);
  await syncAndKill(250);
  const after = await expectForms(changed, completed);
  for (const [id, { id: formId, publicId }] of before) expect(after.get(id)).toMatchObject({ id: formId, publicId });
  const invitedBefore = new Set(invitationsOf(made));
  const invited = [...invitedBefore, ...invitationsOf(changed).filter((line) => !invitedBefore.has(line))];
  await expectMail(mailServer, invited, after);
  await expectLinks([...made, ...changed.filter(({ id }) => !before.has(id))], after);

  const tables = await snapshot();
  await Promise.all([withSdk.run(), withFetch.run()]);
  expect(await snapshot(), "another run changes nothing").toEqual(tables);

  await nightly.kill(1);
  expect(await nightly.run()).toEqual(statusLines(after).filter((line) => !statusLines(before).includes(line)));
  expect(await nightly.run()).toEqual([]);
  await rm(nightly.path("changes.json"));
  expect(await nightly.run()).toEqual(statusLines(after));

  const missing = ofFate("tomorrow")
    .filter((id) => !completed.has(id))
    .sort();
  await arrivals.kill(2);
  const found = await arrivals.run();
  // If midnight has passed somewhere, it is another tomorrow there.
  expect(found).toEqual(days() === today ? missing : missing.filter((id) => found.includes(id)));
});
