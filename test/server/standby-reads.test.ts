import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { asUser, catchErrorCode, makeUser, openTestServices, setRole } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock, LOCK_USERS, waitForBlocked } from "../support/locks.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { isCaughtUp } from "../support/standby.js";
import { startReplicated, startStandby } from "../support/standby-reader.js";

// Reads with DATABASE_REPLICA_URL. What is read was written by another process.

const PROBES_MS = 1_500;

const { primary, writer, owner, old, openReader } = await startReplicated();
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
  const { services, places, expectOnStandby } = shared;
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
  places.length = 0;
  const pages: ReturnType<typeof forms.list>[] = [];
  const read = () => {
    // On a busy machine, the standby may be behind at first.
    pages.push(forms.list({ limit: 1 }));
    return places;
  };
  await expect.poll(read, { interval: 500 }).toContain("recent");
  await lock.commit();
  const items = [await inFlight];
  for (const page of await Promise.all(pages)) expect(page).toMatchObject({ items });
  expect(places).not.toContain("standby");
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
