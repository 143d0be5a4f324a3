import { afterAll, describe, expect, test } from "vitest";
import { readSettings } from "../../server/config.js";
import { createTestDatabase } from "../support/database.js";
import { errorCodeOf } from "../support/response.js";
import { runSql } from "../support/run-sql.js";
import { uniqueStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { startHolderGateway } from "./holder-gateway.js";

/** The default timeouts, which `startTestGateway` otherwise relaxes. */
const { DATABASE_CONNECT_TIMEOUT_MS, DATABASE_STATEMENT_TIMEOUT_MS, DATABASE_LOCK_TIMEOUT_MS } = readSettings({});
const DEFAULTS = { DATABASE_CONNECT_TIMEOUT_MS, DATABASE_STATEMENT_TIMEOUT_MS, DATABASE_LOCK_TIMEOUT_MS };

describe("while the database is unreachable", async () => {
  const database = await createTestDatabase();
  const proxy = await TcpProxy.start(database.url);
  const { gateway, holder, listingId } = await startHolderGateway({ DATABASE_URL: proxy.url, ...DEFAULTS });
  afterAll(async () => {
    proxy.restore();
    await gateway.stop();
    proxy.close();
  });

  const reads = () => [
    { path: "/v1/forms", key: holder.key },
    { path: "/v1/listings", key: holder.readOnlyKey },
    { path: `/v1/listings/${listingId}`, key: holder.key },
  ];
  const writes = () => [
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
      for (const sent of reads()) expect((await gateway.request(sent)).status).toBe(200);
      proxy[outage]();
      // In the first round the keys are in the cache, in the second they are not.
      for (let round = 0; round < 2; round++) {
        const answers = await Promise.all([...reads(), ...writes()].map((sent) => within(3_000, sent)));
        for (const answer of answers) {
          expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
          expect(answer.headers["retry-after"]).toMatch(/^[1-9]\d*$/);
        }
      }
      expect((await within(1_000, { path: "/livez" })).status).toBe(200);
      // Rejecting a request without a key needs no database.
      expect((await within(1_000, { path: "/v1/forms" })).status).toBe(401);
      const { status, json } = await within(3_000, { path: "/readyz" });
      const reason = "the database is unreachable";
      expect([status, json]).toEqual([503, { status: "unavailable", reason }]);
      proxy.restore();
      await expect.poll(async () => (await gateway.request({ path: "/readyz" })).status).toBe(200);
      const changes = gateway.log.filter(({ msg }) => /^(not )?ready$/.test(msg));
      expect(changes.slice(-2)).toMatchObject([{ reason, msg: "not ready" }, { msg: "ready" }]);
      for (const sent of reads()) expect((await gateway.request(sent)).status).toBe(200);
      expect(await runSql(database.url, "SELECT FROM forms")).toEqual([]);
    },
  );
});

test("if the database refuses connections, requests get 503 with Retry-After, logged as an error, and work again after the outage", async () => {
  const { gateway, send } = await startHolderGateway();
  const database = new URL(String(gateway.settings.DATABASE_URL));
  const name = database.pathname.slice(1);
  const server = Object.assign(new URL(database), { pathname: "postgres" }).href;
  expect((await send()).status).toBe(200);
  await runSql(server, `ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`);
  const endSessions = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1";
  await runSql(server, endSessions, [name]);
  const answer = await send();
  expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
  const line = (await gateway.logLinesOf(answer)).find(({ msg }) => msg === "unavailable");
  // Pino's level of errors.
  expect(line).toMatchObject({ level: 50, reason: expect.stringMatching(/not currently accepting/) });
  expect(JSON.stringify(line)).not.toMatch(/"stack"|\bat \//);
  await runSql(server, `ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`);
  expect((await send()).status).toBe(200);
});
