import pg from "pg";
import { type Logger, pino } from "pino";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { prepareDatabase } from "../../gateway/commands/prepare-database.js";
import { type Gateway, startGateway } from "../../gateway/serve.js";
import { ROLE_SETTINGS } from "../../prisma/advisory-locks.js";
import { storeRoleSettings } from "../../prisma/role-settings.js";
import { readSettings } from "../../server/config.js";
import type { Services } from "../../server/context.js";
import { openDb } from "../../server/db.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { dbSettings, openServices } from "../../server/services.js";
import { createTestDatabase } from "../support/database.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { asOperator, makeKey, makeListing, makeUser } from "../support/factories.js";
import { type RequestOptions, sendRequest } from "../support/http-client.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { runSql } from "../support/run-sql.js";
import { fixedStay, uniqueStay } from "../support/stays.js";
import { type PooledDatabase, reconnect, startPooledDatabase } from "./pooled-database.js";

const quiet: Logger = pino({ level: "silent" });

const settingsOf = (
  { url, directUrl }: Pick<PooledDatabase, "url" | "directUrl">,
  env: Record<string, string> = {},
) => ({
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
});

const runMigrate = async (pooled: Pick<PooledDatabase, "url" | "directUrl">) => {
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

  it("precondition: the process and the database use different time zones, neither of them UTC", async () => {
    expect(new Date(0).getHours()).toBe(5);
    const [row] = await runSql<{ zone: string }>(
      pooled.adminUrl,
      "SELECT current_setting('timezone') AS zone",
    );
    expect(row?.zone).toBe("America/New_York");
  });

  describe("migrate", () => {
    it("stores the time zone, timeouts and plan mode for the role, without superuser rights", async () => {
      expect(firstRun.applied).not.toEqual([]);
      expect(firstRun.output.at(-1)).toContain(
        `for the role ${pooled.role} in the database ${pooled.database}`,
      );
      const names = [
        "timezone",
        "plan_cache_mode",
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
      ];
      const columns = names.map((name) => `current_setting('${name}') AS ${name}`).join(", ");
      expect(await runSql(pooled.url, `SELECT ${columns}`)).toEqual([
        {
          timezone: "UTC",
          plan_cache_mode: "force_generic_plan",
          statement_timeout: "4321ms",
          lock_timeout: "3210ms",
          idle_in_transaction_session_timeout: "17284ms",
        },
      ]);
    });

    it("changes nothing on an up-to-date database, also in concurrent runs", async () => {
      const again = await Promise.all([1, 2, 3, 4].map(() => runMigrate(pooled)));
      for (const { applied, output } of again) {
        expect({ applied, output: output.filter((line) => line.startsWith("Stored")) }).toEqual({
          applied: [],
          output: [],
        });
      }
    });

    it("does not end the transaction of another client that uses its session of the pooler", async () => {
      const fresh = await startPooledDatabase(binary);
      const db = openDb(dbSettings(settingsOf({ url: fresh.adminUrl, directUrl: fresh.adminUrl })));
      onTestFinished(() => db.close());
      const lock = await holdLock({ db }, "SELECT pg_advisory_xact_lock($1)", [ROLE_SETTINGS]);
      const { url: pooledUrl, directUrl } = fresh;
      const stored = storeRoleSettings({ pooledUrl, directUrl, settings: { timezone: "UTC" } });
      await waitForBlocked({ db }, 1);
      const sessions = `SELECT pid FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'ClientRead'`;
      const [idle, ...others] = await runSql<{ pid: number }>(fresh.adminUrl, sessions, [fresh.role]);
      expect(others).toEqual([]);
      const client = new pg.Client({ connectionString: pooledUrl });
      client.on("error", () => {});
      await client.connect();
      onTestFinished(() => client.end());
      await client.query("BEGIN");
      expect((await client.query("SELECT pg_backend_pid() AS pid")).rows).toEqual([idle]);
      await lock.commit();
      expect(await stored).toEqual(["timezone"]);
      await client.query("COMMIT");
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
    const db = openDb(dbSettings(settingsOf(emptyDatabase)));
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

  it("with DATABASE_PREPARED=true, PgBouncer rejects the connection", async () => {
    const db = openDb(dbSettings(settingsOf(pooled, { DATABASE_PREPARED: "true" })));
    await expect(db.query("one", "SELECT 1", [])).rejects.toThrow(/unsupported startup parameter/);
    await db.close();
  });

  describe("two gateways and a notification worker", () => {
    let services: Services;
    let gateways: Gateway[];
    let listingId: string;
    let userId: string;
    let key: string;
    let mailServer: Awaited<ReturnType<typeof startMailServer>>;
    let requestCount = 0;

    beforeAll(async () => {
      mailServer = await startMailServer();
      const core = await openServices(settingsOf(pooled), quiet);
      services = core.services;
      gateways = [
        await startGateway({
          settings: settingsOf(pooled, mailEnv(mailServer.url)),
          log: quiet,
          worker: true,
        }),
        await startGateway({ settings: settingsOf(pooled), log: quiet, worker: false }),
      ];
      userId = (await makeUser(services)).id;
      listingId = (await makeListing(services, userId)).id;
      key = (await makeKey(services, userId)).key;
      return async () => {
        await Promise.all(gateways.map((gateway) => gateway.stop()));
        await core.close();
        await mailServer.close();
      };
    });

    /** Sends a request to the gateways in turn. */
    const send = (path: string, options: RequestOptions = {}) =>
      sendRequest(`${gateways[requestCount++ % gateways.length]?.url}/v1/${path}`, key, options);
    const create = (body: unknown, headers = {}) => send("forms", { method: "POST", body, headers });

    it("create, update, fetch and list preserve instants to the millisecond", async () => {
      const created = await create(
        fixedStay(listingId, {
          checkInDate: "2027-03-28T02:30:00.123+01:00",
          checkOutDate: "2027-11-07T01:30:00.456-04:00",
        }),
      );
      const form = created.json as FormV1;
      expect(form).toMatchObject({
        checkInDate: "2027-03-28T01:30:00.123Z",
        checkOutDate: "2027-11-07T05:30:00.456Z",
      });
      expect(Math.abs(Date.parse(form.createdAt) - Date.now())).toBeLessThan(60_000);
      expect((await send(`forms/${form.id}`)).json).toEqual(form);
      expect((await send(`forms?listingId=${listingId}`)).json).toMatchObject({ items: [form] });
      const seconds = (instant: string | null) => Date.parse(instant ?? "") / 1000;
      const rows = await runSql(
        pooled.adminUrl,
        `SELECT extract(epoch FROM check_in_date)::float AS "in", extract(epoch FROM created_at)::float AS created
         FROM forms WHERE id = '${form.id}'`,
      );
      expect(rows).toEqual([{ in: seconds(form.checkInDate), created: seconds(form.createdAt) }]);
      const body = fixedStay(listingId, { checkInDate: "2027-06-30T23:59:59.999+05:30" });
      const updated = await send(`forms/${form.id}`, { method: "PUT", body });
      expect(updated.json).toEqual({ ...form, ...body, checkInDate: "2027-06-30T18:29:59.999Z" });
      expect((await send(`forms/${form.id}`)).json).toEqual(updated.json);
    });

    it("40 concurrent equal creates make one form, and all return it", async () => {
      const body = fixedStay(listingId, { numberOfGuests: 9 });
      const responses = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          create(body, n % 2 ? { "Idempotency-Key": `key ${n % 5}` } : {}),
        ),
      );
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
      expect(new Set(responses.map(({ json }) => (json as FormV1).id)).size).toBe(1);
      expect(responses.filter(({ headers }) => !headers["idempotent-replayed"])).toHaveLength(1);
      const reused = await create({ ...body, numberOfGuests: 8 }, { "Idempotency-Key": "key 1" });
      expect(reused.status).toBe(422);
    });

    it("the worker sends the notification of a create", async () => {
      const operator = asOperator(services);
      const { status } = await create(
        fixedStay(listingId, { numberOfGuests: 7, guestEmail: "seven@example.com" }),
      );
      expect(status).toBe(201);
      await expect.poll(() => mailServer.received.map(({ to }) => to[0])).toEqual(["seven@example.com"]);
      await expect.poll(() => operator.notifications.list()).toEqual([]);
    });

    it("200 concurrent creates on shared sessions: none is lost or duplicated, and the list returns each once", async () => {
      const { id: busyListingId } = await makeListing(services, userId);
      const responses = await Promise.all(
        Array.from({ length: 200 }, () => create(uniqueStay(busyListingId))),
      );
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
      const ids: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const { json } = await send(
          `forms?limit=30&listingId=${busyListingId}${cursor && `&cursor=${cursor}`}`,
        );
        const page = json as { items: FormV1[]; nextCursor: string | null };
        ids.push(...page.items.map(({ id }) => id));
        cursor = page.nextCursor;
      }
      expect(ids.toSorted()).toEqual(responses.map(({ json }) => (json as FormV1).id).toSorted());
    });

    it("no session keeps a prepared statement or an advisory lock", async () => {
      const counts = await Promise.all(
        Array.from({ length: 12 }, () =>
          services.db.query<{ statements: number; locks: number }>(
            "left",
            `SELECT (SELECT count(*)::int FROM pg_prepared_statements WHERE name <> '') AS statements,
               (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks
             FROM pg_sleep(0.2)`,
            [],
          ),
        ),
      );
      expect(counts.flat()).toEqual(Array.from({ length: 12 }, () => ({ statements: 0, locks: 0 })));
    });
  });
});
