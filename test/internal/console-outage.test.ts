import { describe, expect, onTestFinished, test, vi } from "vitest";
import { KnownSessions } from "../../gateway/console/known-sessions.js";
import { PROCEDURES } from "../../gateway/http/procedures.js";
import type { OperatorSession, OperatorSessions } from "../../server/access/operator-sessions.js";
import { createTestDatabase } from "../support/database.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { Browser, COOKIE } from "./console-client.js";
import { errorOf, startInternalGateway } from "./internal-gateway.js";

const PASSWORD = "a-password-of-the-database";
const UNAVAILABLE = { code: "INTERNAL_ERROR", message: expect.stringContaining("The database does not answer") };

/** A gateway with a database that can go, and an operator who has signed in. */
async function start() {
  const target = new URL((await createTestDatabase()).url);
  target.password ||= PASSWORD;
  const proxy = await TcpProxy.start(target.href);
  const { url, gateway } = await startInternalGateway({ DATABASE_URL: proxy.url });
  const { db } = await gateway.services();
  const browser = new Browser(url);
  await browser.signIn();
  return { url, proxy, db, browser };
}

/** Lets the process's monotonic clock be ahead. */
function skipTime() {
  const now = performance.now.bind(performance);
  let skippedMs = 0;
  const spy = vi.spyOn(performance, "now").mockImplementation(() => now() + skippedMs);
  onTestFinished(() => spy.mockRestore());
  return (ms: number) => {
    skippedMs += ms;
  };
}

const MINUTE_MS = 60_000;
/** For the requests of a test. */
const MARGIN_MS = 10_000;

describe("while the database is gone", () => {
  test("overview, health and the session are there for a session that this process has found before, and nothing else is", async () => {
    const { url, proxy, browser } = await start();
    const other = new Browser(url);
    await other.signIn();
    expect(await browser.sessionStatus()).toBe(200);
    proxy.cut();
    const { console: first } = browser.procedures();
    const { history, emails, deliveries } = await first.overview.query();
    expect([history.length, emails, deliveries]).toEqual([1, null, null]);
    const { checks } = await first.health.query();
    expect(checks).toContainEqual({ name: "database", status: "failed", message: expect.any(String) });
    expect(JSON.stringify(checks)).not.toContain(PASSWORD);
    const { status, json } = await browser.send("GET", "/console/session");
    expect([status, json]).toEqual([200, { name: "Ada" }]);
    // What fails without the database or without a valid input would be another status.
    const calls = [...PROCEDURES, "console.nothing", "console.overview,console.health", "console.overview/x"];
    for (const call of calls) {
      const sent = await browser.send("POST", `/console/trpc/${call}`, { body: "no input" });
      expect([call, sent.status, sent.text]).toEqual([
        call,
        503,
        expect.stringContaining("your session cannot be checked"),
      ]);
    }
    expect(await errorOf(other.procedures().console.overview.query())).toMatchObject({ httpStatus: 503 });
    const unknown = await other.send("GET", "/console/session");
    expect([unknown.status, unknown.json]).toEqual([503, expect.objectContaining(UNAVAILABLE)]);
  });

  test("a sign-in and a sign-out say why they fail, and work when it is back", async () => {
    const { url, proxy, browser } = await start();
    proxy.cut();
    const signIn = await new Browser(url).signIn();
    expect([signIn.status, signIn.json.message, signIn.headers.getSetCookie()]).toEqual([
      503,
      expect.stringContaining("The token is right, but the session cannot be stored"),
      [],
    ]);
    expect((await browser.signIn()).json.message).toBe(signIn.json.message);
    expect((await new Browser(url).signIn({ token: "wrong" })).status).toBe(401);
    const signOut = await browser.signOut();
    expect([signOut.status, signOut.json]).toEqual([503, expect.objectContaining(UNAVAILABLE)]);
    proxy.restore();
    await expect.poll(() => browser.sessionStatus()).toBe(200);
    expect((await new Browser(url).signIn()).status).toBe(204);
  });

  test("a cookie that was made up is 401 without a query, as is none", async () => {
    const { url, proxy, browser } = await start();
    proxy.cut();
    const tampered = browser.cookie.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
    const otherRandom = browser.cookie.replace(/=(.)/, (_, first) => (first === "A" ? "=B" : "=A"));
    for (const cookie of ["", `${COOKIE}=${"A".repeat(86)}`, tampered, otherRandom, browser.cookie.slice(0, -43)]) {
      const stranger = new Browser(url);
      stranger.cookie = cookie;
      expect([cookie, await stranger.sessionStatus(), (await stranger.signOut()).status]).toEqual([cookie, 401, 204]);
    }
    expect((await browser.send("GET", "/console/session")).status).toBe(503);
  });

  test.each([
    ["30 minutes after the last input", 30, "0"],
    ["30 minutes after an input that was 25 minutes before", 5, `${25 * 60}`],
    ["8 hours after the sign-in", 10, "0", "7 hours 50 minutes"],
  ])("a session that this process has found ends %s", async (_, minutes, idleSeconds, age = "0") => {
    const { proxy, db, browser } = await start();
    await db.pool.query(`UPDATE operator_sessions SET created_at = created_at - interval '${age}'`);
    await db.pool.query("UPDATE operator_sessions SET last_used_at = last_used_at - interval '29 minutes'");
    const skip = skipTime();
    const read = async () => {
      const { status } = await browser.send("GET", "/console/session", { headers: { "X-Idle-Seconds": idleSeconds } });
      const { console: first } = browser.procedures({ "X-Idle-Seconds": idleSeconds });
      const overview = await first.overview.query().then(
        () => 200,
        (error) => error.data.httpStatus,
      );
      return [status, overview];
    };
    expect(await read()).toEqual([200, 200]);
    proxy.cut();
    skip(minutes * MINUTE_MS - MARGIN_MS);
    expect(await read()).toEqual([200, 200]);
    skip(MARGIN_MS);
    expect(await read()).toEqual([503, 503]);
  });

  test("a session that has ended here is not accepted: by sign-out, also a failed one, and by what the database said", async () => {
    const { url, proxy, db, browser } = await start();
    const [signedOut, failed, expired, valid] = [browser, new Browser(url), new Browser(url), new Browser(url)];
    for (const one of [failed, expired, valid]) await one.signIn();
    for (const one of [signedOut, failed, expired, valid]) expect(await one.sessionStatus()).toBe(200);
    await signedOut.signOut();
    await db.pool.query("UPDATE operator_sessions SET created_at = created_at - interval '8 hours'");
    expect(await expired.sessionStatus()).toBe(401);
    await db.pool.query("UPDATE operator_sessions SET created_at = created_at + interval '8 hours'");
    proxy.cut();
    expect((await failed.signOut()).status).toBe(503);
    const stranger = new Browser(url);
    stranger.cookie = `${COOKIE}=${valid.sessionId[0]}`;
    expect((await stranger.signOut()).status).toBe(204);
    for (const [one, status] of [
      [signedOut, 503],
      [failed, 503],
      [expired, 503],
      [valid, 200],
    ] as const) {
      expect(await one.sessionStatus()).toBe(status);
    }
  });

  test("a session whose row was read before a sign-out here, and arrives after it, is not accepted; another's is", async () => {
    const session = { name: "Ada", secondsLeft: 60 };
    let answer = (_session: OperatorSession) => {};
    let row: Promise<OperatorSession> = new Promise((resolve) => {
      answer = resolve;
    });
    const sessions: Pick<OperatorSessions, "find" | "end"> = { find: () => row, end: async () => [] };
    const known = new KnownSessions(sessions as OperatorSessions);
    const find = (id: string) => known.find([id], 0, true);
    const found = Promise.all([find("ended"), find("other")]);
    await known.end(["ended"]);
    answer(session);
    expect(await found).toEqual([session, session]);
    row = Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }));
    expect(await find("other")).toEqual(session);
    await expect(find("ended")).rejects.toMatchObject({ status: 503 });
  });

  test("the health is not a report from before", async () => {
    const { proxy, browser } = await start();
    const { overview, health } = browser.procedures().console;
    const statusOfDatabase = async () => (await health.query()).checks.find(({ name }) => name === "database")?.status;
    expect(await statusOfDatabase()).toBe("ok");
    proxy.cut();
    expect((await overview.query()).emails).toBeNull();
    expect(await statusOfDatabase()).toBe("failed");
    proxy.restore();
    await expect.poll(async () => (await overview.query()).emails, { timeout: 10_000, interval: 200 }).not.toBeNull();
    expect(await statusOfDatabase()).toBe("ok");
  });

  test("and hangs, a session that was found before is still accepted in time", async () => {
    const { proxy, browser } = await start();
    expect(await browser.sessionStatus()).toBe(200);
    proxy.freeze();
    expect(await browser.sessionStatus()).toBe(200);
  });
});

test("while the database can only be read, sessions hold and a sign-in says that it cannot be written", async () => {
  const { url, db, browser } = await start();
  await db.pool.query("UPDATE operator_sessions SET last_used_at = last_used_at - interval '20 minutes'");
  const name = new URL(db.url).pathname.slice(1);
  await db.pool.query(`ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
  await db.pool.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await expect
    .poll(async () => (await new Browser(url).signIn()).json?.message)
    .toMatch(/session cannot be stored: the database does not answer, or cannot be written/);
  expect(await browser.sessionStatus()).toBe(200);
  expect((await browser.procedures().users.list.query({})).items).toEqual([]);
});
