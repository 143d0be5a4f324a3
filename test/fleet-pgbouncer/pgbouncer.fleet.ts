import { type Logger, pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { prepareDatabase } from "../../gateway/commands/prepare-database.js";
import { type Gateway, startGateway } from "../../gateway/serve.js";
import { type Caller, createCaller } from "../../server/caller.js";
import { readSettings } from "../../server/config.js";
import type { Services } from "../../server/context.js";
import { openDb } from "../../server/db.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { dbSettings, openServices } from "../../server/services.js";
import { fixedStay } from "../factories.js";
import { describeWithBinary } from "../fleet/describe-with-binary.js";
import { createTestDatabase } from "../harness.js";
import { mailEnv, startMailServer } from "../server/mail-server.js";
import { type PooledDatabase, reconnect, runSql, startPooledDatabase } from "./pooled-database.js";

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

    it("fails without DATABASE_DIRECT_URL and names it", async () => {
      await expect(runMigrate({ url: pooled.url, directUrl: pooled.url })).rejects.toThrow(
        /: set DATABASE_DIRECT_URL to the address of PostgreSQL itself/,
      );
    });

    it("fails if DATABASE_DIRECT_URL points to another database", async () => {
      const other = await createTestDatabase();
      await expect(runMigrate({ url: pooled.url, directUrl: other.url })).rejects.toThrow(
        /do not point to the same database/,
      );
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
    let core: { services: Services; close(): Promise<void> };
    let operator: Caller;
    let gateways: Gateway[];
    let mailServer: Awaited<ReturnType<typeof startMailServer>>;
    const logLines: string[] = [];
    let key: string;
    let readOnlyKey: string;
    let ownerId: string;
    let listingId: string;

    beforeAll(async () => {
      const log = pino({ level: "trace", base: null }, { write: (line: string) => void logLines.push(line) });
      mailServer = await startMailServer();
      core = await openServices(settingsOf(pooled), quiet);
      operator = createCaller(core.services, { kind: "operator" });
      gateways = [
        await startGateway({ settings: settingsOf(pooled, mailEnv(mailServer.url)), log, worker: true }),
        await startGateway({ settings: settingsOf(pooled), log, worker: false }),
      ];
      ownerId = (await operator.users.create({ email: "host@people.test" })).id;
      listingId = await addListing();
      key = (await operator.keys.issue({ userId: ownerId, mode: "READ_WRITE" })).key;
      readOnlyKey = (await operator.keys.issue({ userId: ownerId, mode: "READ_ONLY" })).key;
    });

    afterAll(async () => {
      await Promise.all(gateways.map((gateway) => gateway.stop()));
      await core.close();
      await mailServer.close();
    });

    const addListing = async () =>
      (
        await operator.listings.create({
          ownerId,
          title: "Loft by the canal",
          address: "Kanalweg 7",
          city: "Berlin",
          country: "Germany",
          zipCode: "10997",
          timezone: "Europe/Berlin",
        })
      ).id;

    let requestCount = 0;
    async function send(
      method: string,
      path: string,
      { body, with: used = key, headers = {} }: { body?: unknown; with?: string; headers?: object } = {},
    ) {
      const { url } = gateways[requestCount++ % gateways.length] ?? { url: "" };
      const response = await fetch(url + path, {
        method,
        headers: { Authorization: `Bearer ${used}`, "Content-Type": "application/json", ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return {
        status: response.status,
        replayed: response.headers.get("idempotent-replayed"),
        json: (await response.json()) as Record<string, unknown>,
      };
    }

    it("create, update, fetch and list preserve instants to the millisecond", async () => {
      const before = Date.now();
      const created = await send("POST", "/v1/forms", {
        body: fixedStay(listingId, {
          checkInDate: "2027-03-28T02:30:00.123+01:00",
          checkOutDate: "2027-11-07T01:30:00.456-04:00",
        }),
      });
      expect([created.status, created.json]).toEqual([
        201,
        expect.objectContaining({
          checkInDate: "2027-03-28T01:30:00.123Z",
          checkOutDate: "2027-11-07T05:30:00.456Z",
        }),
      ]);
      const form = created.json as FormV1;
      const createdAt = Date.parse(form.createdAt);
      expect(createdAt).toBeGreaterThan(before - 60_000);
      expect(createdAt).toBeLessThan(Date.now() + 60_000);
      expect((await send("GET", `/v1/forms/${form.id}`)).json).toEqual(form);
      expect((await send("GET", `/v1/forms?listingId=${listingId}`)).json.items).toEqual([form]);
      const rows = await runSql(
        pooled.adminUrl,
        `SELECT extract(epoch FROM check_in_date)::float AS "in", extract(epoch FROM created_at)::float AS created
         FROM forms WHERE id = '${form.id}'`,
      );
      expect(rows).toEqual([{ in: Date.parse(form.checkInDate ?? "") / 1000, created: createdAt / 1000 }]);
      const updated = await send("PUT", `/v1/forms/${form.id}`, {
        body: fixedStay(listingId, { checkInDate: "2027-06-30T23:59:59.999+05:30", numberOfGuests: 5 }),
      });
      expect([updated.status, updated.json]).toEqual([
        200,
        {
          ...form,
          checkInDate: "2027-06-30T18:29:59.999Z",
          checkOutDate: fixedStay("").checkOutDate,
          numberOfGuests: 5,
        },
      ]);
      expect((await send("GET", `/v1/forms/${form.id}`)).json).toEqual(updated.json);
    });

    it("listings can be listed and fetched, and a read-only key cannot create", async () => {
      const listing = await send("GET", `/v1/listings/${listingId}`, { with: readOnlyKey });
      expect([listing.status, listing.json.id]).toEqual([200, listingId]);
      const { json } = await send("GET", "/v1/listings", { with: readOnlyKey });
      expect(json.items).toContainEqual(listing.json);
      const rejected = await send("POST", "/v1/forms", { body: fixedStay(listingId), with: readOnlyKey });
      expect(rejected.status).toBe(403);
    });

    it("40 concurrent equal creates make one form, and all return it", async () => {
      const body = fixedStay(listingId, { numberOfGuests: 9, guestEmail: "guest@people.test" });
      const responses = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          send("POST", "/v1/forms", { body, headers: n % 2 ? { "Idempotency-Key": `key ${n % 5}` } : {} }),
        ),
      );
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
      expect(new Set(responses.map(({ json }) => json.id)).size).toBe(1);
      expect(responses.filter(({ replayed }) => replayed === null)).toHaveLength(1);
      const reused = await send("POST", "/v1/forms", {
        body: { ...body, numberOfGuests: 8 },
        headers: { "Idempotency-Key": "key 1" },
      });
      expect(reused.status).toBe(422);
    });

    it("the worker sends the notification of a create", async () => {
      const { json } = await send("POST", "/v1/forms", {
        body: fixedStay(listingId, { numberOfGuests: 7, guestEmail: "seven@people.test" }),
      });
      await expect
        .poll(() => logLines.some((line) => line.includes(`"formId":"${json.id}"`)), { timeout: 10_000 })
        .toBe(true);
      await expect.poll(() => operator.notifications.list(), { timeout: 10_000 }).toEqual([]);
    });

    it("200 concurrent creates on shared sessions: none is lost or duplicated, and the list returns each once", async () => {
      const busy = await addListing();
      const responses = await Promise.all(
        Array.from({ length: 200 }, (_, n) =>
          send("POST", "/v1/forms", { body: fixedStay(busy, { numberOfGuests: n + 1 }) }),
        ),
      );
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([201]));
      const ids: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const query: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
        const { json } = await send("GET", `/v1/forms?limit=30&listingId=${busy}${query}`);
        const page = json as unknown as { items: FormV1[]; nextCursor: string | null };
        ids.push(...page.items.map(({ id }) => id));
        cursor = page.nextCursor;
      }
      expect(ids.length).toBe(200);
      expect(new Set(ids)).toEqual(new Set(responses.map(({ json }) => json.id)));
    });

    it("no session keeps a prepared statement or an advisory lock", async () => {
      const counts = await Promise.all(
        Array.from({ length: 12 }, () =>
          core.services.db.query<{ statements: number; locks: number }>(
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
