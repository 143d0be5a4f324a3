import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { createTestDatabase } from "../support/database.js";
import { makeListing } from "../support/factories.js";
import { type KeyHolder, startTestGateway, type TestGateway } from "../support/gateway.js";
import { errorCodeOf } from "../support/response.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";

/** The default timeouts, which `startTestGateway` otherwise relaxes. */
const { DATABASE_CONNECT_TIMEOUT_MS, DATABASE_STATEMENT_TIMEOUT_MS, DATABASE_LOCK_TIMEOUT_MS } = readSettings(
  {},
);
const DEFAULTS = { DATABASE_CONNECT_TIMEOUT_MS, DATABASE_STATEMENT_TIMEOUT_MS, DATABASE_LOCK_TIMEOUT_MS };

describe("health checks", () => {
  test("/livez and /readyz answer 200 without a key", async () => {
    const gateway = await startTestGateway();
    for (const path of ["/livez", "/readyz"]) {
      const answer = await gateway.request({ path });
      expect([answer.status, answer.json]).toEqual([200, { status: "ok" }]);
    }
  });

  test("/readyz answers 503 with the reason if the schema is older than the code", async () => {
    const { url } = await createTestDatabase({ empty: true });
    const gateway = await startTestGateway({ DATABASE_URL: url });
    expect((await gateway.request({ path: "/livez" })).status).toBe(200);
    const answer = await gateway.request({ path: "/readyz" });
    expect([answer.status, answer.json]).toEqual([
      503,
      {
        status: "unavailable",
        reason: "the database schema is older than this version: run `guest-forms migrate`",
      },
    ]);
  });
});

describe("while the database is unreachable", async () => {
  const database = await createTestDatabase();
  const proxy = await TcpProxy.start(database.url);
  const gateway = await startTestGateway({ DATABASE_URL: proxy.url, ...DEFAULTS });
  // Bypasses the proxy, so that tests can query the database during the outage.
  const direct = new pg.Client({ connectionString: database.url });
  let holder: KeyHolder;
  let listingId: string;

  beforeAll(async () => {
    await direct.connect();
    holder = await gateway.addKeyHolder();
    listingId = (await makeListing(await gateway.services(), holder.userId)).id;
  });
  afterAll(async () => {
    proxy.restore();
    await gateway.stop();
    await direct.end();
    proxy.close();
  });

  const requests = () => [
    { path: "/v1/forms", key: holder.key },
    { path: "/v1/listings", key: holder.readOnlyKey },
    { path: `/v1/listings/${listingId}`, key: holder.key },
    { method: "POST", path: "/v1/forms", key: holder.key, body: uniqueStay(listingId) },
    { method: "PUT", path: `/v1/forms/${listingId}`, key: holder.key, body: uniqueStay(listingId) },
  ];

  async function within(ms: number, sent: Parameters<typeof gateway.request>[0]) {
    const began = performance.now();
    const answer = await gateway.request(sent);
    expect(performance.now() - began, `milliseconds of ${sent.path}`).toBeLessThan(ms);
    return answer;
  }

  test.each(["cut", "freeze"] as const)(
    "every operation answers 503 within 3 s, and works again after the outage (%s)",
    async (outage) => {
      for (const sent of requests().slice(0, 3)) expect((await gateway.request(sent)).status).toBe(200);
      proxy[outage]();
      // In the first round the keys are in the cache, in the second they are not.
      for (let round = 0; round < 2; round++) {
        const answers = await Promise.all(requests().map((sent) => within(3_000, sent)));
        for (const answer of answers) {
          expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
          expect(answer.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
        }
      }
      const live = await within(1_000, { path: "/livez" });
      expect(live.status).toBe(200);
      // Rejecting a request without a key needs no database.
      expect((await within(1_000, { path: "/v1/forms" })).status).toBe(401);
      const ready = await within(3_000, { path: "/readyz" });
      expect([ready.status, ready.json]).toEqual([
        503,
        { status: "unavailable", reason: "the database is unreachable" },
      ]);
      proxy.restore();
      await expect.poll(async () => (await gateway.request({ path: "/readyz" })).status).toBe(200);
      for (const sent of requests().slice(0, 3)) expect((await gateway.request(sent)).status).toBe(200);
      const { rows } = await direct.query("SELECT count(*)::int AS n FROM forms");
      expect(rows).toEqual([{ n: 0 }]);
    },
  );

  test("a create that waits too long for a lock gets 503 and is not executed later", async () => {
    await direct.query("BEGIN");
    await direct.query("SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
    const body = uniqueStay(listingId, { guestEmail: "ana@example.com" });
    const answer = await within(3_000, { method: "POST", path: "/v1/forms", key: holder.key, body });
    expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
    await direct.query("COMMIT");
    const again = await gateway.request({ method: "POST", path: "/v1/forms", key: holder.key, body });
    expect(again.status).toBe(201);
    expect(again.headers["idempotent-replayed"]).toBeUndefined();
  });
});

/** Pino's log levels. */
const [WARN, ERROR] = [40, 50];

describe("while the database refuses connections", async () => {
  const database = await createTestDatabase();
  const role = `guest_forms_test_refused_${process.pid}`;
  const name = new URL(database.url).pathname.slice(1);
  const owner = decodeURIComponent(new URL(database.url).username);
  const server = new pg.Client({ connectionString: withDatabase("postgres").href });
  let gateway: TestGateway;
  let holder: KeyHolder;

  function withDatabase(path: string): URL {
    const url = new URL(database.url);
    url.pathname = path;
    return url;
  }

  beforeAll(async () => {
    await server.connect();
    await server.query(`CREATE ROLE ${role} LOGIN PASSWORD 'first'`);
    await server.query(`GRANT "${owner}" TO ${role}`);
    const url = withDatabase(name);
    [url.username, url.password] = [role, "first"];
    gateway = await startTestGateway({ DATABASE_URL: url.href });
    holder = await gateway.addKeyHolder();
  });
  afterAll(async () => {
    await gateway.stop();
    await database.drop();
    await server.query(`DROP ROLE ${role}`);
    await server.end();
  });

  const sendRequest = () => gateway.request({ path: "/v1/forms", key: holder.key });

  async function acceptsAnyPassword(): Promise<boolean> {
    const url = withDatabase("postgres");
    url.password = "wrong";
    return runSql(url.href, "SELECT").then(
      () => true,
      () => false,
    );
  }

  test.for([
    {
      outage: "the role may not log in (28000)",
      refuse: [`ALTER ROLE ${role} NOLOGIN`],
      admit: [`ALTER ROLE ${role} LOGIN`],
      reason: /is not permitted to log in/,
    },
    {
      outage: "the role's password has changed (28P01)",
      refuse: [`ALTER ROLE ${role} PASSWORD 'second'`],
      admit: [`ALTER ROLE ${role} PASSWORD 'first'`],
      reason: /password authentication failed/,
    },
    {
      outage: "the role may not connect to the database (42501)",
      refuse: [`REVOKE "${owner}" FROM ${role}`, `REVOKE CONNECT ON DATABASE "${name}" FROM PUBLIC`],
      admit: [`GRANT "${owner}" TO ${role}`, `GRANT CONNECT ON DATABASE "${name}" TO PUBLIC`],
      reason: /permission denied for database/,
    },
    {
      outage: "the database accepts no connections (55000)",
      refuse: [`ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`],
      admit: [`ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`],
      reason: /is not currently accepting connections/,
    },
    {
      outage: "the database does not exist (3D000)",
      refuse: [`ALTER DATABASE "${name}" RENAME TO "${name}_moved"`],
      admit: [`ALTER DATABASE "${name}_moved" RENAME TO "${name}"`],
      reason: /does not exist/,
    },
    {
      outage: "the role has too many connections (53300), which is a warning",
      refuse: [`ALTER ROLE ${role} CONNECTION LIMIT 0`],
      admit: [`ALTER ROLE ${role} CONNECTION LIMIT -1`],
      reason: /too many connections for role/,
      level: WARN,
    },
  ])(
    "requests get 503 with Retry-After, logged as an error, and work again after the outage: $outage",
    async (given, { skip }) => {
      skip(
        given.outage.includes("28P01") && (await acceptsAnyPassword()),
        "this server asks for no password",
      );
      expect((await sendRequest()).status).toBe(200);
      await server.query("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1", [
        name,
      ]);
      for (const sql of given.refuse) await server.query(sql);
      const answer = await sendRequest();
      expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
      expect(answer.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
      const lines = await gateway.logLinesOf(answer);
      expect(lines.find(({ msg }) => msg === "unavailable")).toMatchObject({
        level: given.level ?? ERROR,
        reason: expect.stringMatching(given.reason),
      });
      for (const sql of given.admit) await server.query(sql);
      expect((await sendRequest()).status).toBe(200);
    },
  );
});

test("requests succeed again after all database connections are terminated at the same time", async () => {
  const gateway = await startTestGateway();
  const { key } = await gateway.addKeyHolder();
  const sendRequest = () => gateway.request({ path: "/v1/forms", key });
  await Promise.all(Array.from({ length: 10 }, sendRequest));
  await runSql(
    String(gateway.settings.DATABASE_URL),
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await expect.poll(async () => (await sendRequest()).status).toBe(200);
  for (let n = 0; n < 10; n++) expect((await sendRequest()).status).toBe(200);
});
