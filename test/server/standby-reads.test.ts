import { expect, onTestFinished, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import type { ReadPlace } from "../../server/database/reads.js";
import { openServices } from "../../server/services.js";
import { afterFile } from "../support/after-file.js";
import { LONG_DATABASE_TIMEOUTS } from "../support/database.js";
import { asUser, catchErrorCode, makeUser, openTestServices, setRole, TEST_SECRET } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock, LOCK_USERS, waitForBlocked } from "../support/locks.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { addStandby, isCaughtUp } from "../support/standby.js";

// Reads with DATABASE_REPLICA_URL. What is read was written by another process: they share nothing but the database.

const POOL_SIZE = 8;
/** Within a second, reads leave a standby that does not answer. The other time is that of a busy machine. */
const MAX_ANSWER_MS = 5_000;
const PROBES_MS = 1_500;

const LOCKED_LISTINGS =
  "SELECT FROM pg_locks WHERE relation = 'listings'::regclass AND mode = 'AccessExclusiveLock' AND granted";

const primary = await PostgresCluster.create();
afterFile(() => primary.remove());
await migrate(primary.url);
const writer = await openTestServices({ DATABASE_URL: primary.url });
const owner = await makeListingOwner(writer);
const old = await owner.addForm();

async function startStandby(of = primary): Promise<PostgresCluster> {
  const standby = await addStandby(of);
  afterFile(() => standby.remove());
  return standby;
}

interface ReaderOptions {
  standby?: PostgresCluster;
  url?: string;
  atEnd?: (close: () => Promise<void>) => void;
}

/** Opens a process that reads from a standby, by default a new one, and records where its reads run. It ends with the test. */
async function openReader(
  env: Record<string, string> = {},
  { standby, url = primary.url, atEnd = onTestFinished }: ReaderOptions = {},
) {
  const replica = standby ?? (await startStandby());
  const places: ReadPlace[] = [];
  const warnings: string[] = [];
  const settings = readSettings({
    APP_SECRETS: TEST_SECRET,
    ...LONG_DATABASE_TIMEOUTS,
    DATABASE_POOL_SIZE: `${POOL_SIZE}`,
    DATABASE_URL: url,
    DATABASE_REPLICA_URL: replica.url,
    ...env,
  });
  const log = { warn: (_: object, message: string) => void warnings.push(message) };
  const { services, close } = await openServices(settings, log, { onRead: (place) => places.push(place) });
  atEnd(close);
  const { forms, listings } = asUser(services, owner.userId);
  /** Returns the result of reads, and where they ran. */
  const locate = async <Result>(work: () => Promise<Result>): Promise<[Result, ReadPlace[]]> => {
    places.length = 0;
    const result = await work();
    return [result, [...places]];
  };
  const readOld = () => locate(() => forms.get({ id: old.id }));
  return {
    standby: replica,
    services,
    places,
    forms,
    listings,
    warnings,
    locate,
    /** A read that must succeed, wherever it runs. Returns where. */
    async readSomewhere() {
      const [form, [place]] = await readOld();
      expect(form).toEqual(old);
      return place;
    },
    /** Waits until reads run on the standby. */
    waitUntilUsed: () => expect.poll(async () => (await readOld())[1], { interval: 5 }).toEqual(["standby"]),
    /** Waits until these reads run on the standby: on a busy machine it may be some milliseconds behind. Expects their result. */
    expectOnStandby: (work: () => Promise<unknown>, result: unknown) =>
      expect.poll(() => locate(work), { interval: 5 }).toEqual([result, ["standby"]]),
    waitForReplay: () => expect.poll(() => isCaughtUp(primary, replica), { interval: 5 }).toBe(true),
  };
}

const shared = await openReader({}, { atEnd: afterFile });
const pauseReplay = () => runSql(shared.standby.url, "SELECT pg_wal_replay_pause()");
const resumeReplay = () => runSql(shared.standby.url, "SELECT pg_wal_replay_resume()");

test("what was acknowledged is read from the standby, by another process", async () => {
  const { forms, listings, expectOnStandby } = shared;
  const form = await owner.addForm();
  const listing = expect.objectContaining({ id: owner.listingId });
  await expectOnStandby(() => forms.get({ id: form.id }), form);
  await expectOnStandby(() => listings.get({ id: owner.listingId }), listing);
  await expectOnStandby(() => listings.list({}), { items: [listing], nextCursor: null });
  await expectOnStandby(() => forms.list({}), { items: [old, form], nextCursor: null });
  await expectOnStandby(() => catchErrorCode(forms.get({ id: crypto.randomUUID() })), "RESOURCE_NOT_FOUND");
});

test("what a standby has not replayed is read from the primary: creates, updates, roles; and it is used again once it has", async () => {
  const { services, forms, locate, waitUntilUsed, expectOnStandby, warnings } = shared;
  const { id: colleague } = await makeUser(writer);
  await setRole(writer, owner.listingId, colleague, "WRITER");
  const theirs = asUser(services, colleague).forms;
  await waitUntilUsed();
  warnings.length = 0;
  await pauseReplay();
  const form = await owner.addForm();
  expect(await locate(() => forms.get({ id: form.id }))).toEqual([form, [expect.not.stringMatching("standby")]]);
  const updated = await owner.forms.update({ id: form.id, ...owner.body, numberOfGuests: 3 });
  expect(await locate(() => forms.get({ id: form.id }))).toEqual([updated, ["unused"]]);
  expect(await theirs.get({ id: form.id })).toEqual(updated);
  await setRole(writer, owner.listingId, colleague, "READER");
  expect(await catchErrorCode(theirs.get({ id: form.id }))).toBe("RESOURCE_NOT_FOUND");
  expect((await theirs.list({})).items).toEqual([]);
  await expect.poll(() => warnings).toEqual([expect.stringMatching(/^reads use the primary/)]);
  await resumeReplay();
  await waitUntilUsed();
  await expectOnStandby(() => theirs.list({}), { items: [], nextCursor: null });
  expect(warnings.at(-1)).toBe("reads use the standby again");
});

test("a page that would skip a create in flight is read from the primary, once the create has ended", async () => {
  const { services, places, locate, expectOnStandby } = shared;
  const [first, second] = [await makeListingOwner(writer), await makeListingOwner(writer)];
  const reader = await makeUser(writer);
  for (const { listingId } of [first, second]) await setRole(writer, listingId, reader.id, "WRITER");
  const { forms } = asUser(services, reader.id);
  const lock = await holdLock(writer, LOCK_USERS, [[first.userId]]);
  const inFlight = first.addForm();
  await waitForBlocked(writer, 1);
  const [next, last] = [await second.addForm(), await second.addForm()];
  // Without a cursor, nothing can be skipped.
  await expectOnStandby(() => forms.list({}), { items: [next, last], nextCursor: null });
  const page = locate(() => forms.list({ limit: 1 }));
  await expect.poll(() => places).toEqual(["recent"]);
  await lock.commit();
  expect(await page).toMatchObject([{ items: [await inFlight] }, ["recent"]]);
});

test("reads on a standby that is killed run on the primary without an error, and on the standby once it is back", async () => {
  const { standby, waitUntilUsed, readSomewhere, locate, forms } = await openReader();
  await waitUntilUsed();
  const reads = locate(() => Promise.all(Array.from({ length: 200 }, () => forms.get({ id: old.id }))));
  await standby.stop("SIGKILL");
  expect((await reads)[0]).toEqual(Array(200).fill(old));
  expect(await readSomewhere()).not.toBe("standby");
  await standby.start();
  await waitUntilUsed();
});

test("reads on a standby that is frozen run on the primary about a second later, and others at once", async () => {
  const { standby, forms, waitUntilUsed, readSomewhere, locate } = await openReader();
  await waitUntilUsed();
  standby.freeze();
  const began = performance.now();
  // More of one key holder than may run at a time.
  const [read, where] = await locate(() => Promise.all(Array.from({ length: 30 }, () => forms.get({ id: old.id }))));
  expect(performance.now() - began).toBeLessThan(MAX_ANSWER_MS);
  expect(read).toEqual(Array(30).fill(old));
  expect(new Set(where)).toEqual(new Set(["failed", "unused"]));
  for (let n = 0; n < 5; n++) expect(await readSomewhere()).toBe("unused");
  standby.unfreeze();
  await waitUntilUsed();
});

test("a statement that takes too long on the standby runs on the primary, and others still on the standby", async () => {
  const { places, listings, expectOnStandby, forms } = shared;
  await expectOnStandby(() => forms.get({ id: old.id }), old);
  const lock = await holdLock(writer, "LOCK TABLE listings IN ACCESS EXCLUSIVE MODE");
  await expect.poll(() => runSql(shared.standby.url, LOCKED_LISTINGS)).toHaveLength(1);
  places.length = 0;
  const reading: Promise<{ id: string }>[] = [];
  const read = () => {
    // On a busy machine, the standby may be behind at first.
    reading.push(listings.get({ id: owner.listingId }));
    return places;
  };
  await expect.poll(read, { interval: 2_000 }).toContain("cancelled");
  await lock.commit();
  for (const { id } of await Promise.all(reading)) expect(id).toBe(owner.listingId);
  await expectOnStandby(() => forms.get({ id: old.id }), old);
});

test("a database of the same server, restored from a dump, is not read from the standby of the old one", async () => {
  const restored = new URL("/restored", primary.url).href;
  await runSql(primary.url, "CREATE DATABASE restored");
  await migrate(restored);
  await openTestServices({ DATABASE_URL: restored });
  const marks = await runSql<{ id: string; mark: string }>(primary.url, "SELECT * FROM timelines");
  for (const { id, mark } of marks) await runSql(restored, "INSERT INTO timelines VALUES ($1, $2)", [id, mark]);
  const { locate, forms } = await openReader({}, { standby: shared.standby, url: restored });
  expect(await locate(() => catchErrorCode(forms.get({ id: old.id })))).toEqual(["RESOURCE_NOT_FOUND", ["failed"]]);
});

test("reads that are cancelled or disconnected on the standby run on the primary without an error", async () => {
  const { standby, waitUntilUsed, locate, forms } = await openReader();
  for (const end of ["pg_cancel_backend", "pg_terminate_backend"]) {
    await waitUntilUsed();
    const stopAll = () =>
      runSql(standby.url, `SELECT ${end}(pid) FROM pg_stat_activity WHERE application_name = 'guest-forms reads'`);
    const reads = locate(() => Promise.all(Array.from({ length: 300 }, () => forms.list({}))));
    for (let n = 0; n < 10; n++) await stopAll();
    expect((await reads)[0].every(({ items }) => items[0]?.id === old.id)).toBe(true);
  }
});

test("a standby that was promoted is no longer read", async () => {
  const { standby, waitUntilUsed, readSomewhere } = await openReader();
  await waitUntilUsed();
  await runSql(standby.url, "SELECT pg_promote()");
  await runSql(standby.url, "DELETE FROM forms");
  for (let n = 0; n < 20; n++) expect(await readSomewhere()).not.toBe("standby");
});

test("a standby that has replayed what the new primary never had is not read, although it is ahead of it", async () => {
  const former = await PostgresCluster.create();
  afterFile(() => former.remove());
  await migrate(former.url);
  const before = await openTestServices({ DATABASE_URL: former.url });
  const host = await makeListingOwner(before);
  const [behind, ahead] = [await startStandby(former), await startStandby(former)];
  await behind.stop("SIGINT");
  const lost = await host.addForm();
  await expect.poll(() => isCaughtUp(former, ahead)).toBe(true);
  await former.stop("SIGKILL");
  await behind.start();
  await runSql(behind.url, "SELECT pg_promote()");
  const { services, places } = await openReader({}, { standby: ahead, url: behind.url });
  const { forms } = asUser(services, host.userId);
  const readLost = () => catchErrorCode(forms.get({ id: lost.id }));
  expect(await readLost()).toBe("RESOURCE_NOT_FOUND");
  await expect.poll(() => runSql(behind.url, "SELECT id FROM timelines")).toContainEqual({ id: "00000002" });
  // Long enough for several probes.
  for (const until = performance.now() + PROBES_MS; performance.now() < until; )
    expect(await readLost()).toBe("RESOURCE_NOT_FOUND");
  expect(places).not.toContain("standby");
  expect(await isCaughtUp(behind, ahead)).toBe(true);
  expect(await runSql(ahead.url, "SELECT id FROM forms")).toEqual([{ id: lost.id }]);
});

test("while the primary cannot be written, and so not marked, it is read", async () => {
  await runSql(primary.url, "DELETE FROM timelines");
  const url = `${primary.url}?options=-c%20default_transaction_read_only%3Don`;
  const { readSomewhere } = await openReader({}, { standby: shared.standby, url });
  expect(await readSomewhere()).toBe("failed");
  expect(await readSomewhere()).toBe("unused");
  // Another process marks it, and all read the standby again.
  await shared.waitUntilUsed();
  const { waitUntilUsed } = await openReader({}, { standby: shared.standby });
  await waitUntilUsed();
});

test("of the reads that the primary takes over, so few run at a time that others have connections", async () => {
  const { standby, services } = await openReader({ DATABASE_CONNECTIONS_PER_HOLDER: `${POOL_SIZE / 2}` });
  await standby.stop("SIGKILL");
  const lock = await holdLock(writer, "LOCK TABLE listings IN ACCESS EXCLUSIVE MODE");
  const { listings } = asUser(services, owner.userId);
  const reads = Array.from({ length: 3 * POOL_SIZE }, () => listings.get({ id: owner.listingId }));
  await waitForBlocked(writer, POOL_SIZE / 2);
  expect(await services.db.query("free", "SELECT 1 AS one", [])).toEqual([{ one: 1 }]);
  await waitForBlocked(writer, POOL_SIZE / 2);
  await lock.commit();
  for (const listing of await Promise.all(reads)) expect(listing.id).toBe(owner.listingId);
});
