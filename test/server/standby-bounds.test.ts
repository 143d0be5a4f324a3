import { expect, test } from "vitest";
import { afterFile } from "../support/after-file.js";
import { asUser } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { runSql } from "../support/run-sql.js";
import { POOL_SIZE, startReplicated } from "../support/standby-reader.js";

// How long reads with DATABASE_REPLICA_URL wait, and what those of one server leave to others.

/** Within a second, reads leave a standby that does not answer. The other time is that of a busy machine. */
const MAX_ANSWER_MS = 5_000;
const SLEEP: [string, string, []] = ["sleep", "SELECT pg_sleep(0.25)", []];

const LOCKED_LISTINGS =
  "SELECT FROM pg_locks WHERE relation = 'listings'::regclass AND mode = 'AccessExclusiveLock' AND granted";

const { primary, writer, owner, old, openReader } = await startReplicated();
const shared = await openReader({}, { atEnd: afterFile });

test("reads on a standby that is frozen run on the primary about a second later, and others at once", async () => {
  const { standby, forms, waitUntilUsed, readSomewhere, locate } = await openReader();
  await waitUntilUsed();
  standby.freeze();
  const began = performance.now();
  // More of one key holder than may run at a time.
  const [read, where] = await locate(() => Promise.all(Array.from({ length: 30 }, () => forms.get({ id: old.id }))));
  expect(performance.now() - began).toBeLessThan(MAX_ANSWER_MS);
  expect(read).toEqual(Array(30).fill(old));
  expect(where).toContain("failed");
  expect(where).not.toContain("standby");
  for (let n = 0; n < 5; n++) expect(await readSomewhere()).toBe("unused");
  standby.unfreeze();
  await waitUntilUsed();
});

test("a statement that takes too long on the standby runs on the primary, and others still on the standby", async () => {
  const { places, listings, expectOnStandby, forms } = shared;
  await expectOnStandby(() => forms.get({ id: old.id }), old);
  const lock = await holdLock(writer, "LOCK TABLE listings IN ACCESS EXCLUSIVE MODE");
  // The WAL of a lock is sent with that of the next commit.
  await runSql(primary.url, "SELECT pg_current_xact_id()");
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

test("reads that are cancelled or disconnected on the standby run on the primary without an error", async () => {
  const { standby, services, waitUntilUsed, locate } = await openReader();
  const read = () => services.reads.run((sql) => sql.query(...SLEEP), AbortSignal.any([]));
  for (const [end, expected] of [
    ["pg_cancel_backend", /^cancelled$/],
    ["pg_terminate_backend", /^(cancelled|failed)$/],
  ] as const) {
    const stopAll = () =>
      runSql(
        standby.url,
        `SELECT ${end}(pid) FROM pg_stat_activity
         WHERE application_name = 'guest-forms reads' AND state = 'active' AND query LIKE '%pg_sleep%'`,
      );
    const outcomes: unknown[] = [];
    /** Returns where reads ran, of which some were stopped; nothing if none was. */
    const readStopped = async () => {
      await waitUntilUsed();
      let isReading = true;
      const reading = locate(() => Promise.allSettled(Array.from({ length: POOL_SIZE / 2 }, read))).finally(() => {
        isReading = false;
      });
      let stopped = 0;
      while (isReading && stopped === 0) stopped = (await stopAll()).length;
      const [results, places] = await reading;
      outcomes.push(...results);
      return stopped > 0 ? places : [];
    };
    await expect.poll(readStopped, { interval: 0 }).toContainEqual(expect.stringMatching(expected));
    expect(outcomes).toEqual(outcomes.map(() => ({ status: "fulfilled", value: [{ pg_sleep: "" }] })));
  }
});

test("if the connection on which the primary is asked for its position hangs or breaks, another one is asked, and the standby is read", async () => {
  const { services, waitUntilUsed, locateReplayed, forms } = shared;
  const pidOfNext = async () => {
    const [{ pid } = { pid: Number.NaN }] = await services.db.query<{ pid: number }>(
      "pid",
      "SELECT pg_backend_pid() AS pid",
      [],
    );
    return pid;
  };
  const read = () => forms.get({ id: old.id });
  const readBesideHung = async () => {
    const hung = await pidOfNext();
    process.kill(hung, "SIGSTOP");
    const began = performance.now();
    try {
      return { form: await read(), ms: performance.now() - began };
    } finally {
      process.kill(hung, "SIGCONT");
    }
  };
  const [{ form, ms }, where] = await locateReplayed(readBesideHung);
  expect(form).toEqual(old);
  expect(where).toEqual(["standby"]);
  expect(ms).toBeLessThan(MAX_ANSWER_MS);
  await waitUntilUsed();
  const broken = await pidOfNext();
  const reads = Promise.all(Array.from({ length: 300 }, read));
  await runSql(primary.url, "SELECT pg_terminate_backend($1)", [broken]);
  expect(await reads).toEqual(Array(300).fill(old));
});

test("a read of several statements that takes too long on the standby runs on the primary", async () => {
  const { services, locateReplayed } = shared;
  let sent = 0;
  const read = () => {
    sent = 0;
    return services.reads.run(async (sql) => {
      for (let n = 0; n < 4; n++) {
        await sql.query(...SLEEP);
        sent++;
      }
    }, AbortSignal.any([]));
  };
  expect(await locateReplayed(read)).toEqual([undefined, ["cancelled"]]);
  expect(sent).toBeLessThan(4 + 3);
});

test("if all connections to the standby are in use for long, others still read there", async () => {
  const { services, locateReplayed } = shared;
  const signal = AbortSignal.any([]);
  const read = () => services.reads.run((sql) => sql.query(...SLEEP), signal);
  const [, places] = await locateReplayed(() => Promise.all(Array.from({ length: 6 * POOL_SIZE }, read)));
  expect([...new Set(places)].sort()).toEqual(["cancelled", "standby"]);
});

test("of the reads that the primary takes over, so few run at a time that others have connections", async () => {
  const { standby, services } = await openReader({ DATABASE_CONNECTIONS_PER_HOLDER: `${POOL_SIZE / 2}` });
  await standby.stop("SIGKILL");
  const owners = [owner, await makeListingOwner(writer), await makeListingOwner(writer)];
  const lock = await holdLock(writer, "LOCK TABLE listings IN ACCESS EXCLUSIVE MODE");
  // Together, they may use more connections than there are.
  const reads = owners.flatMap(({ userId, listingId }) =>
    Array.from({ length: POOL_SIZE }, () => asUser(services, userId).listings.get({ id: listingId })),
  );
  await waitForBlocked(writer, POOL_SIZE / 2);
  expect(await services.db.query("free", "SELECT 1 AS one", [])).toEqual([{ one: 1 }]);
  await waitForBlocked(writer, POOL_SIZE / 2);
  await lock.commit();
  const read = await Promise.all(reads);
  expect(new Set(read.map(({ id }) => id))).toEqual(new Set(owners.map(({ listingId }) => listingId)));
});
