import { setTimeout as sleep } from "node:timers/promises";
import { expect, inject, it } from "vitest";
import { findViolations } from "../faults/postgres-invariants.js";
import { countStatuses, Traffic } from "../faults/postgres-traffic.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { TEST_SECRET } from "../support/factories.js";
import { slowestMs } from "../support/http-client.js";
import { startMailServer } from "../support/mail-server.js";
import { runSql } from "../support/run-sql.js";
import { seededRandom } from "../support/statistics.js";
import { UpgradableFleet } from "./fleet.js";
import {
  buildNextVersion,
  buildPreviousVersion,
  currentVersion,
  NEW_FIELD,
  type Version,
} from "./versions.js";

const FORMS = 200_000;
const REQUESTS_PER_SECOND = 40;
const MAX_REQUEST_MS = 500;
/** Time in which a state is observed under load. */
const WATCH_MS = 3_000;
const MIX = { create: 3, repeat: 2, update: 1, list: 3, fetch: 3, listing: 1 };

interface Holder {
  listingIds: string[];
  key: string;
}

describeWithBinary("haproxy", "an upgrade under load", (haproxy) => {
  it("from the previous version to this one and back: no request fails or takes 0.5 s, no form is lost or doubled, replays are exact", async () => {
    await drill(haproxy, await buildPreviousVersion(), currentVersion);
  });

  it("to a version with a new field of FormV1 and a new index, and back: the same", async () => {
    const next = await buildNextVersion(inject("serverUrl"));
    const { fleet, holder, traffic, replaceBy } = await drill(haproxy, currentVersion, next, NEW_FIELD);
    await replaceBy(next);
    const path = `/v1/forms/${traffic.creates[0]?.form?.id}`;
    const headers = { Authorization: `Bearer ${holder.key}` };
    const form = await (await fetch(`${fleet.url}${path}`, { headers })).json();
    expect(form).toMatchObject({ [NEW_FIELD]: null });
  });

  /** Migrates under load from `from` to `to`, replaces all processes, and goes back. */
  async function drill(haproxy: string, from: Version, to: Version, ignoredField?: string) {
    const { url } = await createTestDatabase({ empty: true });
    const env = {
      DATABASE_URL: url,
      DATABASE_POOL_SIZE: "5",
      APP_SECRETS: TEST_SECRET,
      RATE_LIMIT_MAX: "1000000",
    };
    await from.json(["migrate"], env);
    const holder = await createHolder(from, env);
    await fill(url, holder);
    const mailServer = await startMailServer();
    afterFile(() => mailServer.close());
    const fleet = await UpgradableFleet.start(haproxy, from, env, mailServer);
    const traffic = new Traffic({
      urls: [fleet.url],
      key: holder.key,
      listingIds: holder.listingIds,
      perSecond: REQUESTS_PER_SECOND,
      mix: MIX,
      random: seededRandom(1),
      ignoredField,
    });
    afterFile(() => traffic.close());
    const replaceBy = (version: Version) => fleet.replaceBy(version, holder.key);

    traffic.start();
    await sleep(WATCH_MS);
    const before = traffic.samples.length;
    const { applied } = await to.json<{ applied: string[] }>(["migrate"], env);
    expect(applied.length).toBeGreaterThan(0);
    const migrated = traffic.samples.length;
    await replaceBy(to);
    await sleep(WATCH_MS);
    const upgraded = traffic.samples.length;
    await replaceBy(from);
    await sleep(WATCH_MS);
    await traffic.stop();

    const slowest = (begin: number, end?: number) => slowestMs(traffic.samples.slice(begin, end)).toFixed();
    console.info(
      `${from.name} to ${to.name} (${applied.length} migrations) and back: ${traffic.samples.length} responses ` +
        `${JSON.stringify(countStatuses(traffic.samples))}, ${traffic.creates.length} creates; slowest ms before ` +
        `${slowest(0, before)}, migration ${slowest(before, migrated)}, upgrade ${slowest(migrated, upgraded)}, ` +
        `back ${slowest(upgraded)}`,
    );
    const failures = traffic.samples.filter(({ status }) => status !== 200 && status !== 201);
    expect([...traffic.violations, ...failures]).toEqual([]);
    const { violations } = await findViolations(url, traffic.creates, {
      listingIds: holder.listingIds,
      ignoredField,
    });
    expect(violations).toEqual([]);
    await expect
      .poll(() => runSql(url, "SELECT state FROM notifications WHERE state <> 'sent'"), { timeout: 60_000 })
      .toEqual([]);
    expect(mailServer.received).toHaveLength(traffic.creates.filter(({ body }) => body.guestEmail).length);
    expect(slowestMs(traffic.samples.slice(before))).toBeLessThan(MAX_REQUEST_MS);
    return { fleet, holder, traffic, replaceBy };
  }
});

/** Creates a key holder with three listings, through the commands of this version. */
async function createHolder(version: Version, env: Record<string, string>): Promise<Holder> {
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
async function fill(url: string, { listingIds }: Holder): Promise<void> {
  await runSql(
    url,
    `WITH listing AS (
       INSERT INTO listings (public_id, title, address, city, country, zip_code, timezone, created_at)
       SELECT gen_random_uuid(), 'Listing ' || i, 'a', 'c', 'c', 'z', 'UTC', now() - interval '1 year'
       FROM generate_series(1, 100) i RETURNING id, created_at
     ), member AS (
       INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
       SELECT m.user_id, l.id, l.created_at, 'OWNER' FROM listing l, memberships m WHERE m.listing_id = $2
     )
     INSERT INTO forms (public_id, listing_id, fingerprint, created_at)
     SELECT gen_random_uuid(), id, '\\x00', now() - interval '1 year' + i * interval '1 s'
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
