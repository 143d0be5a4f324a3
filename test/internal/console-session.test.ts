import { describe, expect, test } from "vitest";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { Browser, COOKIE, openBrowser } from "./console-client.js";
import { startInternalGateway, TOKEN } from "./internal-gateway.js";

const internal = await startInternalGateway();
const { url, gateway } = internal;
const { db } = await gateway.services();
const sql = async (text: string) => (await db.pool.query(text)).rows;

/** Changes the times of all sessions. */
const age = (column: "created_at" | "last_used_at", by: string) =>
  sql(`UPDATE operator_sessions SET ${column} = ${column} - interval '${by}'`);

describe("a session", () => {
  test("begins with the token and a name, is a cookie that scripts and other sites cannot use, and ends on sign-out", async () => {
    const browser = new Browser(url);
    expect(await browser.sessionStatus()).toBe(401);
    const signIn = await browser.signIn({ name: "  Ada Lovelace " });
    expect([signIn.status, signIn.text]).toEqual([204, ""]);
    const [cookie = "", ...others] = signIn.headers.getSetCookie();
    expect(others).toEqual([]);
    const attributes =
      /^guest_forms_console_[\da-f]{8}=[\w-]{86}; Max-Age=28800; Path=\/console; Expires=[^;]+; HttpOnly; SameSite=Strict$/;
    expect(cookie).toMatch(attributes);
    const { json } = await browser.send("GET", "/console/session");
    expect(json).toEqual({ name: "Ada Lovelace" });
    const signOut = await browser.signOut();
    expect(signOut.status).toBe(204);
    expect(signOut.headers.getSetCookie()).toEqual([expect.stringMatching(`^${COOKIE}=; Max-Age=0; Path=/console;`)]);
    expect(await browser.sessionStatus()).toBe(401);
    expect((await browser.signOut()).status).toBe(204);
  });

  test("behind a proxy with TLS, the cookie is sent over https only", async () => {
    const browser = new Browser(url);
    const { headers } = await browser.signIn({ headers: { Origin: "https://console.example.com" } });
    expect(headers.getSetCookie()).toEqual([expect.stringMatching(`^__Secure-${COOKIE}=.*; HttpOnly; Secure; `)]);
    expect(await browser.sessionStatus()).toBe(200);
    const ended = `${COOKIE}=${"x".repeat(43)}`;
    const both = await browser.send("GET", "/console/session", { headers: { Cookie: `${ended}; ${browser.cookie}` } });
    expect(both.status).toBe(200);
  });

  test("is stored without its id and without the token", async () => {
    const browser = await openBrowser(internal);
    const id = browser.sessionId;
    const stored = JSON.stringify(await sql("SELECT s::text AS row FROM operator_sessions s"));
    const halves = [id.slice(0, 43), id.slice(43)];
    const forms = [TOKEN, ...halves].flatMap((secret) => [secret, Buffer.from(secret).toString("hex")]);
    const bytes = halves.map((half) => Buffer.from(half, "base64url").toString("hex"));
    for (const secret of [...forms, ...bytes]) expect(stored).not.toContain(secret);
  });

  test("ends 8 hours after the sign-in, even under constant use, and its row is deleted at the next sign-in", async () => {
    const browser = await openBrowser(internal);
    await age("created_at", "7 hours 59 minutes");
    expect(await browser.sessionStatus()).toBe(200);
    await age("created_at", "1 minute");
    expect(await browser.sessionStatus()).toBe(401);
    await openBrowser(internal);
    expect(await sql("SELECT name FROM operator_sessions")).toHaveLength(1);
  });

  test("ends after 30 minutes without use", async () => {
    const [used, idle] = [await openBrowser(internal), await openBrowser(internal)];
    await age("last_used_at", "29 minutes");
    expect(await used.sessionStatus()).toBe(200);
    await age("last_used_at", "1 minute");
    expect([await used.sessionStatus(), await idle.sessionStatus()]).toEqual([200, 401]);
  });

  describe("with X-Idle-Seconds", () => {
    const pollStatus = async (browser: Browser, idleSeconds: number | string | undefined) => {
      const headers = idleSeconds === undefined ? {} : { "X-Idle-Seconds": String(idleSeconds) };
      return (await browser.send("GET", "/console/session", { headers })).status;
    };

    test("ends 30 minutes after the last input in any tab: polling does not extend it", async () => {
      const tabs = await openBrowser(internal);
      for (let minute = 1; minute < 30; minute++) {
        await age("last_used_at", "1 minute");
        expect(await pollStatus(tabs, minute * 60)).toBe(200);
        const { console: first } = tabs.procedures({ "X-Idle-Seconds": String(24 * 3600 + minute * 60) });
        expect((await first.overview.query()).version).toBeDefined();
      }
      await age("last_used_at", "58 seconds");
      expect(await pollStatus(tabs, 30 * 60 - 2)).toBe(200);
      await age("last_used_at", "2 seconds");
      expect([await pollStatus(tabs, 30 * 60), await pollStatus(tabs, 0)]).toEqual([401, 401]);
    });

    test("of two tabs that call at the same time, the earlier input does not replace the later one", async () => {
      const tabs = await openBrowser(internal);
      await age("last_used_at", "28 minutes");
      const lock = await holdLock({ db }, "SELECT FROM operator_sessions FOR UPDATE");
      const used = pollStatus(tabs, 0);
      await waitForBlocked({ db }, 1);
      const idle = pollStatus(tabs, 25 * 60);
      await waitForBlocked({ db }, 2);
      await lock.rollback();
      expect([await used, await idle]).toEqual([200, 200]);
      await age("last_used_at", "10 minutes");
      expect(await pollStatus(tabs, 35 * 60)).toBe(200);
    });

    /** Polls after a time without use, and the status. */
    type Step = [after: string, idleSeconds: number | string | undefined, status: 200 | 401];
    const withoutInput = (what: string, sent: string): [string, ...Step[]] => [
      `of ${what} does not extend it, and does not fail`,
      ["29 minutes", sent, 200],
      ["1 minute", sent, 401],
    ];

    test.each<[string, ...Step[]]>([
      [
        "input in one tab keeps the session for all tabs, from the time of the input",
        ["20 minutes", 50, 200],
        ["0 seconds", 20 * 60, 200],
        ["29 minutes", 49 * 60, 200],
        ["10 seconds", 49 * 60, 401],
      ],
      [
        "input less than a minute after the last written use counts",
        ["50 seconds", 0, 200],
        ["5 minutes", 5 * 60, 200],
        ["24 minutes 30 seconds", 30 * 60 - 30, 200],
      ],
      ...["", "-1", "1.5", "1e3", "0x10", "Infinity", "soon"].map((sent): [string, ...Step[]] => [
        `that is ${JSON.stringify(sent)} counts as input, as does no header`,
        ["29 minutes", sent, 200],
        ["2 minutes", undefined, 200],
      ]),
      withoutInput("30 minutes", "1800"),
      withoutInput("more than an interval of Postgres", "9".repeat(30)),
      withoutInput("more than a number of JavaScript", "9".repeat(400)),
    ])("%s", async (_, ...steps) => {
      const browser = await openBrowser(internal);
      for (const [after, idleSeconds, status] of steps) {
        await age("last_used_at", after);
        expect([after, await pollStatus(browser, idleSeconds)]).toEqual([after, status]);
      }
    });
  });

  test("its last use is written at most once a minute", async () => {
    const browser = await openBrowser(internal);
    const version = async () =>
      JSON.stringify(await sql("SELECT xmin, last_used_at FROM operator_sessions ORDER BY hash"));
    const before = await version();
    for (let use = 0; use < 3; use++) expect(await browser.sessionStatus()).toBe(200);
    expect(await version()).toBe(before);
    await age("last_used_at", "61 seconds");
    const aged = await version();
    await browser.sessionStatus();
    const written = await version();
    expect(written).not.toBe(aged);
    await browser.sessionStatus();
    expect(await version()).toBe(written);
  });

  test("holds on every process and after a restart, ends on all of them on sign-out, and with a changed token", async () => {
    const DATABASE_URL = db.url;
    const other = await startInternalGateway({ DATABASE_URL });
    const changed = await startInternalGateway({ DATABASE_URL, INTERNAL_TOKEN: `${TOKEN}-changed` });
    const browser = await openBrowser(internal);
    const there = new Browser(other.url);
    const withChangedToken = new Browser(changed.url);
    there.cookie = withChangedToken.cookie = browser.cookie;
    expect([await there.sessionStatus(), await withChangedToken.sessionStatus()]).toEqual([200, 401]);
    await other.gateway.stop();
    const restarted = new Browser((await startInternalGateway({ DATABASE_URL })).url);
    restarted.cookie = browser.cookie;
    expect(await restarted.sessionStatus()).toBe(200);
    await restarted.signOut();
    expect(await browser.sessionStatus()).toBe(401);
  });

  test("and one of another installation at the same host name, with a token of its own, do not end each other", async () => {
    const other = await startInternalGateway({ INTERNAL_TOKEN: `${TOKEN}-of-another` });
    const [here, there] = [new Browser(url), new Browser(other.url)];
    /** Sends the cookies of both, as a browser does, because a cookie is for all ports. */
    const withBoth = async (browser: Browser, method: "GET" | "DELETE" = "GET") => {
      const headers = { Cookie: `${here.cookie}; ${there.cookie}` };
      const response = await browser.send(method, "/console/session", { headers });
      return [
        response.status,
        response.json?.name,
        ...response.headers.getSetCookie().map((cookie) => cookie.split("=")[0]),
      ];
    };
    await here.signIn({ name: "Ada" });
    await there.signIn({ name: "Grace", token: `${TOKEN}-of-another` });
    const names = [here, there].map(({ cookie }) => cookie.split("=")[0]);
    expect(new Set(names).size).toBe(2);
    expect([await withBoth(here), await withBoth(there)]).toEqual([
      [200, "Ada"],
      [200, "Grace"],
    ]);
    expect(await withBoth(there, "DELETE")).toEqual([204, undefined, names[1]]);
    expect([await withBoth(here), await withBoth(there)]).toEqual([
      [200, "Ada"],
      [401, undefined],
    ]);
  });

  test("sign-in and sign-out are logged with the name and the correlation id, without token and cookie", async () => {
    const browser = new Browser(url);
    const signIn = await browser.signIn({ name: "Grace" });
    gateway.forbidInLog(browser.sessionId);
    const signOut = await browser.signOut();
    for (const [msg, { headers }] of [
      ["console sign-in", signIn],
      ["console sign-out", signOut],
    ] as const) {
      const correlationId = headers.get("x-correlation-id");
      expect(gateway.log.filter((line) => line.msg === msg && line.name === "Grace")).toMatchObject([
        { correlationId },
      ]);
    }
  });

  test("is found among up to 100 cookies of the same name, which another service on the host can add", async () => {
    const browser = await openBrowser(internal);
    const { cookie, sessionId } = browser;
    const other = `${COOKIE}=${"x".repeat(86)}`;
    const tampered = `${COOKIE}=${sessionId.replace(/.$/, (last) => (last === "A" ? "B" : "A"))}`;
    browser.cookie = [...Array(49).fill(other), tampered, cookie, ...Array(49).fill(other)].join("; ");
    expect(await browser.sessionStatus()).toBe(200);
    expect((await browser.signOut()).status).toBe(204);
    browser.cookie = cookie;
    expect(await browser.sessionStatus()).toBe(401);
  });
});
