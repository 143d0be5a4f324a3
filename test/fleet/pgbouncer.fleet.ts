import { type Logger, pino } from "pino";
import { beforeAll, describe, expect, it } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { type Gateway, startGateway } from "../../gateway/processes/gateway.js";
import { prepareDatabase } from "../../gateway/processes/prepare-database.js";
import { migrate } from "../../prisma/migrate.js";
import type { Services } from "../../server/access/context.js";
import { readSettings } from "../../server/config.js";
import { openDb } from "../../server/database/db.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { openServices } from "../../server/services.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { asOperator, makeKey, makeListing, makeUser, TEST_SECRET } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { floodLockedListing, sendListsAtOnce } from "../support/noisy-tenants.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { fixedStay, uniqueStay } from "../support/stays.js";
import {
  type PooledDatabase,
  type PooledGateway,
  reconnect,
  startPooledDatabase,
  startPooledGateway,
} from "./pooled-database.js";

const quiet: Logger = pino({ level: "silent" });

type Urls = Pick<PooledDatabase, "url" | "directUrl">;

const settingsOf = ({ url, directUrl }: Urls, env: Record<string, string> = {}) => ({
  ...readSettings({
    PORT: "0",
    RATE_LIMIT_MAX: "1000000",
    DATABASE_URL: url,
    DATABASE_DIRECT_URL: directUrl,
    DATABASE_PREPARED: "false",
    DATABASE_CONNECT_TIMEOUT_MS: "10000",
    DATABASE_STATEMENT_TIMEOUT_MS: "4321",
    DATABASE_LOCK_TIMEOUT_MS: "3210",
    ...env,
  }),
  DATABASE_URL: url,
  APP_SECRETS: [TEST_SECRET],
});

const runMigrate = async (pooled: Urls) => {
  const output: string[] = [];
  const { applied } = await prepareDatabase(settingsOf(pooled), (line) => output.push(line));
  return { applied, output };
};

describeWithBinary("pgbouncer", "behind PgBouncer in transaction mode", (binary) => {
  let pooled: PooledDatabase;
  let firstRun: Awaited<ReturnType<typeof runMigrate>>;

  beforeAll(async () => {
    pooled = await startPooledDatabase(binary);
    firstRun = await runMigrate(pooled);
    await reconnect(pooled);
  });

  describe("migrate", () => {
    it("stores the time zone, timeouts and plan mode for the role, without superuser rights, and then changes nothing, also in concurrent runs", async () => {
      expect(firstRun.applied).not.toEqual([]);
      expect(firstRun.output.at(-1)).toContain(`for the role ${pooled.role} in the database ${pooled.database}`);
      const expected = {
        timezone: "UTC",
        plan_cache_mode: "force_generic_plan",
        jit: "off",
        statement_timeout: "4321ms",
        lock_timeout: "3210ms",
        idle_in_transaction_session_timeout: "17284ms",
      };
      const columns = Object.keys(expected).map((name) => `current_setting('${name}') AS ${name}`);
      expect(await runSql(pooled.url, `SELECT ${columns}`)).toEqual([expected]);
      const again = await Promise.all([1, 2, 3, 4].map(() => runMigrate(pooled)));
      for (const { applied, output } of again) {
        expect(applied).toEqual([]);
        expect(output.filter((line) => line.startsWith("Stored"))).toEqual([]);
      }
    });

    it("fails if DATABASE_DIRECT_URL points to PgBouncer or to another database", async () => {
      const { url } = pooled;
      await expect(runMigrate({ url, directUrl: url })).rejects.toThrow(
        /: set DATABASE_DIRECT_URL to the address of PostgreSQL itself/,
      );
      const { url: directUrl } = await createTestDatabase();
      await expect(runMigrate({ url, directUrl })).rejects.toThrow(/do not point to the same database/);
    });
  });

  it("every statement runs in UTC, also in sessions opened before the role settings were stored", async () => {
    const emptyDatabase = await startPooledDatabase(binary);
    const timeZones = (count: number, query: (text: string) => Promise<{ zone: string }[]>) =>
      Promise.all(
        Array.from({ length: count }, async () => {
          const [row] = await query("SELECT current_setting('TimeZone') AS zone FROM pg_sleep(0.02)");
          return row?.zone;
        }),
      );
    // PgBouncer shares its sessions with clients in another time zone.
    const otherClients = () => timeZones(30, (text) => runSql(emptyDatabase.url, text));
    expect(new Set(await otherClients())).toEqual(new Set(["America/New_York"]));
    const db = openDb(settingsOf(emptyDatabase));
    for (const prepare of [async () => {}, () => runMigrate(emptyDatabase)]) {
      await prepare();
      const [service, others] = await Promise.all([
        timeZones(100, (text) => db.query("zone", text, [])),
        otherClients(),
        timeZones(100, (text) => db.prisma.$queryRawUnsafe(text)),
      ]);
      expect([new Set(service), new Set(others)]).toEqual([new Set(["UTC"]), new Set(["America/New_York"])]);
    }
    await db.close();
  });

  it("`doctor` warns of session settings that are missing, or older than the configured ones", async () => {
    // One, so that the session that was opened before is used again.
    const fresh = await startPooledDatabase(binary, { sessions: 1 });
    const warnings = async (env: Record<string, string> = {}) => {
      const settings = settingsOf(fresh, env);
      const reports = await examine({ settings, env: {}, processes: 1, worker: false });
      return reports.find(({ name }) => name === "connections")?.message;
    };
    await migrate(fresh.directUrl);
    expect(await warnings()).toMatch(
      /^plan_cache_mode, jit, statement_timeout, lock_timeout, idle_in_transaction_session_timeout: .*`guest-forms migrate`/,
    );
    await runMigrate(fresh);
    expect(await warnings()).toMatch(/^plan_cache_mode, .* then RECONNECT in PgBouncer/);
    await reconnect(fresh);
    expect(await warnings()).toMatch(/^1 process opens at most/);
    expect(await warnings({ DATABASE_LOCK_TIMEOUT_MS: "3000" })).toMatch(/^lock_timeout: /);
  });

  describe("two gateways and a worker", () => {
    let services: Services;
    let gateways: Gateway[];
    let listingId: string;
    let key: string;
    let mailServer: Awaited<ReturnType<typeof startMailServer>>;
    let requestCount = 0;

    beforeAll(async () => {
      mailServer = await startMailServer();
      const core = await openServices(settingsOf(pooled), quiet);
      services = core.services;
      const settings = settingsOf(pooled, mailEnv(mailServer.url));
      gateways = [
        await startGateway({ settings, log: quiet, worker: true }),
        await startGateway({ settings, log: quiet, worker: false }),
      ];
      const { id: userId } = await makeUser(services);
      listingId = (await makeListing(services, userId)).id;
      key = (await makeKey(services, userId)).key;
      return async () => {
        await Promise.all(gateways.map((gateway) => gateway.stop()));
        await core.close();
        await mailServer.close();
      };
    });

    /** Sends a create to the gateways in turn. */
    const create = (body: unknown, headers = {}) => {
      const gateway = gateways[requestCount++ % gateways.length];
      return sendRequest(`${gateway?.url}/v1/forms`, key, { method: "POST", body, headers });
    };

    it("40 concurrent equal creates make one form, and all return it", async () => {
      const body = fixedStay(listingId, { numberOfGuests: 9 });
      const responses = await Promise.all(
        Array.from({ length: 40 }, (_, n) => create(body, n % 2 ? { "Idempotency-Key": `key ${n % 5}` } : {})),
      );
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
      expect(new Set(responses.map(({ json }) => (json as FormV1).id)).size).toBe(1);
      expect(responses.filter(({ headers }) => !headers["idempotent-replayed"])).toHaveLength(1);
      const reused = await create({ ...body, numberOfGuests: 8 }, { "Idempotency-Key": "key 1" });
      expect(reused.status).toBe(422);
    });

    it("the worker sends the email of a create", async () => {
      const operator = asOperator(services);
      const { status } = await create(fixedStay(listingId, { numberOfGuests: 7, guestEmail: "seven@example.com" }));
      expect(status).toBe(201);
      await expect.poll(() => mailServer.received.map(({ to }) => to[0])).toEqual(["seven@example.com"]);
      await expect.poll(async () => (await operator.emails.list({})).items).toEqual([]);
    });

    it("no session keeps a prepared statement or an advisory lock", async () => {
      const sql = `SELECT (SELECT count(*)::int FROM pg_prepared_statements WHERE name <> '') AS statements,
           (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks
         FROM pg_sleep(0.2)`;
      const counts = await Promise.all(Array.from({ length: 12 }, () => services.db.query("left", sql, [])));
      expect(counts.flat()).toEqual(Array(12).fill({ statements: 0, locks: 0 }));
    });
  });

  describe("every request of other key holders succeeds", () => {
    let gateway: PooledGateway;

    beforeAll(async () => {
      gateway = await startPooledGateway(binary);
    });

    it("while a listing is locked for 10 s and its owner sends 60 creates per second to it", async () => {
      await floodLockedListing(gateway.url, gateway.services);
    });

    it("while a key holder sends 200 lists at once", async () => {
      await sendListsAtOnce(gateway.url, gateway.services);
    });
  });

  it("no request is served by a server that has become a standby, also with a cached key, /readyz says why, and all is served again after its promotion", async () => {
    const cluster = await PostgresCluster.create();
    afterFile(() => cluster.remove());
    const { url, key, listingId } = await startPooledGateway(binary, cluster.url);
    const read = (path: string) => sendRequest(`${url}${path}`, key);
    const create = () => sendRequest(`${url}/v1/forms`, key, { method: "POST", body: uniqueStay(listingId) });
    const { id } = (await create()).json as FormV1;
    const reads = ["/v1/forms", `/v1/forms?listingId=${listingId}`, "/v1/listings", `/v1/listings/${listingId}`];
    const expectReads = async (status: number) => {
      for (const path of [...reads, `/v1/forms/${id}`])
        expect([path, (await read(path)).status]).toEqual([path, status]);
    };
    await expectReads(200);
    await cluster.becomeStandby();
    // The service keeps its connections to PgBouncer: the first statements may meet the connection that PgBouncer has lost.
    await expect.poll(async () => (await read("/readyz")).json).toMatchObject({ reason: "the database is a standby" });
    for (let round = 0; round < 3; round++) {
      await expectReads(503);
      expect((await create()).status).toBe(503);
    }
    await runSql(cluster.url, "SELECT pg_promote()");
    await expect.poll(async () => (await create()).status).toBe(201);
    await expectReads(200);
  });
});
