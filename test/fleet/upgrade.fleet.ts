import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, inject, it } from "vitest";
import { expectNothingLost } from "../support/acknowledged.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { TEST_SECRET } from "../support/factories.js";
import { sendRequest, slowestMs } from "../support/http-client.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { runSql } from "../support/run-sql.js";
import { waitForEmails } from "../support/service.js";
import { countStatuses, isSuccess, Traffic } from "../support/traffic.js";
import { type BalancedFleet, startBalancedFleet } from "./balanced-fleet.js";
import { findDelay } from "./upgrade-delay.js";
import { buildNextVersion, buildPreviousVersion, currentVersion, type Version } from "./versions.js";

const FORMS = 200_000;
const REQUESTS_PER_SECOND = 40;
/** Time in which a state is observed under load. */
const WATCH_MS = 2_500;
/** Drills, if requests were delayed: other load on the machine delays them in some, an upgrade in each. */
const MAX_ATTEMPTS = 3;
const MIX = { create: 3, repeat: 2, update: 1, list: 3, fetch: 3, listing: 1 };

/** Two versions, of which the second one may be this one. */
type Upgrade = [from: Version, to: Version];

describeWithBinary("haproxy", "an upgrade of a database of 200,000 forms", () => {
  it.each<[string, () => Promise<Upgrade>]>([
    [
      "to a version with a new field and a new index",
      async () => [currentVersion, await buildNextVersion(inject("serverUrl"))],
    ],
    ["from the previous version", async () => [await buildPreviousVersion(), currentVersion]],
  ])(
    "%s under load, and the way back, fail or delay no request, lose or double no form, and replay exactly",
    async (_, build) => {
      const upgrade = await build();
      let delay: string | undefined;
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        delay = await upgradeAndGoBack(upgrade);
        if (!delay) return;
        console.info(delay);
      }
      expect.fail(delay);
    },
  );
});

/**
 * Migrates under load, replaces all processes by those of `to`, and goes back. Asserts that no request fails, no form is lost
 * or doubled, replays are exact, and every guest gets one email. Returns the delay of requests in the upgrade, compared with
 * quiet periods that together are as long.
 */
async function upgradeAndGoBack([from, to]: Upgrade): Promise<string | undefined> {
  const known = await from.formFields();
  /** Null for all forms, except `updatedAt` and `guestUrl`. */
  const newFields = (await to.formFields()).filter((name) => !known.includes(name));
  const database = await createTestDatabase({ empty: true });
  const { url } = database;
  const mailServer = await startMailServer();
  afterFile(() => mailServer.close());
  const settings = { DATABASE_POOL_SIZE: "5", RATE_LIMIT_MAX: "1000000", ...mailEnv(mailServer.url) };
  const env = { DATABASE_URL: url, APP_SECRETS: TEST_SECRET, ...settings };
  await from.json(["migrate"], env);
  const { key, listingIds } = await createHolder(from, env);
  await fill(url, listingIds);
  const fleet = await startBalancedFleet(env, key, from.spawn);
  await fleet.worker.start(from.spawn);
  await warmUp(fleet.url, key, newFields);

  const load = { perSecond: REQUESTS_PER_SECOND, mix: MIX, seed: 1, ignoredFields: newFields };
  const traffic = new Traffic({ urls: [fleet.url], key, listingIds, ...load });
  await sleep(WATCH_MS);
  const quietFrom = performance.now();
  await sleep(WATCH_MS);
  const upgradeFrom = performance.now();
  const applied = await migrateDuringBackup(to, env);
  await replaceBy(to, fleet);
  const path = `/v1/forms/${traffic.creates[0]?.form?.id}`;
  const form = await (await fetch(fleet.url + path, { headers: { Authorization: `Bearer ${key}` } })).json();
  const { updatedAt: _, guestUrl: _link, ...unset } = Object.fromEntries(newFields.map((name) => [name, null]));
  expect(form).toMatchObject({ ...unset, updatedAt: expect.any(String) });
  await sleep(WATCH_MS);
  await replaceBy(from, fleet);
  await sleep(WATCH_MS);
  const upgradeUntil = performance.now();
  const quietMs = upgradeUntil - upgradeFrom - (upgradeFrom - quietFrom);
  await sleep(quietMs);
  await expectNothingLost(traffic, url, { listingIds, ignoredFields: newFields });

  const samples = {
    upgrade: traffic.sentBetween(upgradeFrom, upgradeUntil),
    quiet: [
      ...traffic.sentBetween(quietFrom, upgradeFrom),
      ...traffic.sentBetween(upgradeUntil, upgradeUntil + quietMs),
    ],
  };
  console.info(
    `${from.name} to ${to.name} (${applied.length} migrations) and back: ${traffic.samples.length} responses ` +
      `${JSON.stringify(countStatuses(traffic.samples))}, ${traffic.creates.length} creates; slowest ms: ` +
      `upgrade ${Math.round(slowestMs(samples.upgrade))}, quiet ${Math.round(slowestMs(samples.quiet))}`,
  );
  expect(traffic.samples.filter((sample) => !isSuccess(sample))).toEqual([]);
  await waitForEmails(url);
  expect(mailServer.received).toHaveLength(traffic.creates.filter(({ body }) => body.guestEmail).length);
  // Another attempt must have the machine for itself.
  traffic.closeConnections();
  await fleet.stop();
  await database.drop();
  return findDelay(samples);
}

/** Replaces each process by one of this version, one after the other, as gateway/docs/operating.md describes. */
async function replaceBy({ spawn }: Version, { gateways, worker, waitUntilServing }: BalancedFleet): Promise<void> {
  for (const process of [...gateways, worker]) {
    expect((await process.stop())?.code).toBe(0);
    await process.start(spawn);
    if (process !== worker) await waitUntilServing(process);
  }
}

const WARM_UP_ROUNDS = 20;
/** Requests at a time, so that every connection of the two pools is opened. */
const WARM_UP_REQUESTS = 10;

/** Processes that have just started all at once respond slowly at first. Later, one at a time is replaced under load. */
async function warmUp(url: string, key: string, ignoredFields: readonly string[]): Promise<void> {
  const send = () => sendRequest(`${url}/v1/forms?limit=1`, key, { ignoredFields });
  const round = () => Array.from({ length: WARM_UP_REQUESTS }, send);
  for (let n = 0; n < WARM_UP_ROUNDS; n++)
    for (const { status } of await Promise.all(round())) expect(status).toBe(200);
}

/** Migrates while a transaction holds all tables as pg_dump does, which pending migrations must wait for. */
async function migrateDuringBackup(version: Version, env: Record<string, string>): Promise<string[]> {
  const { pending } = await version.json<{ pending: unknown[] }>(["migrate", "--dry-run"], env);
  const backup = new pg.Client({ connectionString: env.DATABASE_URL });
  await backup.connect();
  await backup.query(
    "BEGIN; LOCK TABLE users, listings, memberships, forms, creations, emails, webhook_deliveries IN ACCESS SHARE MODE",
  );
  const migrating = version.spawn(["migrate", "--json"], { env });
  if (pending.length > 0) await migrating.waitForLine(/^Waiting for a lock/);
  await sleep(WATCH_MS);
  await backup.query("COMMIT");
  await backup.end();
  const { code, stdout } = await migrating.done;
  expect(code).toBe(0);
  return (JSON.parse(stdout) as { applied: string[] }).applied;
}

/** Creates a key holder with three listings, through the commands of this version. */
async function createHolder(version: Version, env: Record<string, string>) {
  const email = "host@example.com";
  await version.json(["users", "create", "--email", email], env);
  const place = ["--address", "a", "--city", "c", "--country", "c", "--zip-code", "z", "--timezone", "UTC"];
  const create = ["listings", "create", "--owner", email, "--title", "Loft", ...place];
  const listings = [];
  for (let n = 0; n < 3; n++) listings.push(await version.json<{ id: string }>(create, env));
  const issue = ["keys", "issue", "--user", email, "--mode", "read-write"];
  const { key } = await version.json<{ key: string }>(issue, env);
  return { key, listingIds: listings.map(({ id }) => id) };
}

/** Adds listings of the same holder, with old forms. */
async function fill(url: string, listingIds: string[]): Promise<void> {
  await runSql(
    url,
    `WITH listing AS (
       INSERT INTO listings (public_id, title, address, city, country, zip_code, timezone, created_at)
       SELECT left(md5(i::text), 21), 'Listing ' || i, 'a', 'c', 'c', 'z', 'UTC', now() - interval '1 year'
       FROM generate_series(1, 100) i RETURNING id, created_at
     ), member AS (
       INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
       SELECT m.user_id, l.id, l.created_at, 'OWNER' FROM listing l, memberships m WHERE m.listing_id = $2
     )
     INSERT INTO forms (public_id, listing_id, fingerprint, created_at)
     SELECT left(md5(id::text || i), 21), id, '\\x00', now() - interval '1 year' + i * interval '1 s'
     FROM listing CROSS JOIN generate_series(1, $1::int / 100) i`,
    [FORMS, listingIds[0]],
  );
  const [row] = await runSql<{ forms: number; scoped: number }>(
    url,
    "SELECT (SELECT count(*)::int FROM forms) AS forms, (SELECT count(*)::int FROM scoped_forms) AS scoped",
  );
  expect(row).toEqual({ forms: FORMS, scoped: FORMS });
  await runSql(url, "VACUUM ANALYZE");
}
