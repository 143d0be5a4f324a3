import { describe, expect, test } from "vitest";
import { Browser, COOKIE, openBrowser } from "./console-client.js";
import { startInternalGateway, TOKEN } from "./internal-gateway.js";

const internal = await startInternalGateway();
const { url } = internal;
const { host } = new URL(url);

describe("a sign-in", () => {
  test.each([
    [{ name: "Ada" }, ["token"]],
    [{ token: TOKEN }, ["name"]],
    [{ token: TOKEN, name: "  " }, ["name"]],
    [{ token: TOKEN, name: "a".repeat(81) }, ["name"]],
    [{ token: TOKEN, name: "a\nb" }, ["name"]],
    [{ token: TOKEN, name: ` ${TOKEN}` }, ["name"]],
    [{ token: 1, name: 1 }, ["token", "name"]],
    [{ token: TOKEN, name: "Ada", role: "root" }, ["role"]],
  ])("with %j names the rejected fields", async (body, fields) => {
    const { status, json, headers } = await new Browser(url).send("POST", "/console/session", { body });
    expect([status, json.code]).toEqual([400, "VALIDATION_ERROR"]);
    expect(json.errors.map(({ field }: { field: string }) => field)).toEqual(fields);
    expect(headers.getSetCookie()).toEqual([]);
  });

  test.each([`${TOKEN}x`, TOKEN.slice(0, -1), "", TOKEN.toUpperCase()])(
    "with the wrong token %j is 401",
    async (token) => {
      const { status, json, headers } = await new Browser(url).signIn({ token });
      expect([status, json.code, headers.getSetCookie()]).toEqual([401, "UNAUTHENTICATED", []]);
    },
  );

  test("with the right token always succeeds; of wrong ones 10 a minute per address of the connection are 401, the others 429, whatever X-Forwarded-For says", async () => {
    const { url } = await startInternalGateway({ TRUST_PROXY: 1 });
    let address = 0;
    const signIn = (token = TOKEN) =>
      new Browser(url).signIn({ token, headers: { "X-Forwarded-For": `192.0.2.${address++}` } });
    for (let success = 0; success < 12; success++) expect((await signIn()).status).toBe(204);
    const [right, ...wrong] = await Promise.all([signIn(), ...Array.from({ length: 40 }, () => signIn("wrong"))]);
    expect(right.status).toBe(204);
    expect(wrong.filter(({ status }) => status === 401)).toHaveLength(10);
    const limited = wrong.filter(({ status }) => status === 429);
    expect(limited).toHaveLength(30);
    for (const { json, headers } of limited) {
      expect([json.code, headers.getSetCookie()]).toEqual(["RATE_LIMITED", []]);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(30);
      expect(Number(headers.get("retry-after"))).toBeLessThanOrEqual(60);
    }
    expect([(await signIn()).status, (await signIn("wrong")).status]).toEqual([204, 429]);
  });

  test("with a wrong token does not tell whether the name is the token, and counts", async () => {
    const { url } = await startInternalGateway();
    const signIn = (name: string) => new Browser(url).signIn({ token: "wrong", name });
    const [guessed, other] = [await signIn(TOKEN), await signIn("Ada")];
    expect([guessed.status, guessed.json.message]).toEqual([401, other.json.message]);
    for (let failure = 2; failure < 10; failure++) expect((await signIn("Ada")).status).toBe(401);
    expect((await signIn(TOKEN)).status).toBe(429);
  });

  test("ends the sessions that the browser had, and so does a sign-out, with the cookies of http and of https", async () => {
    const [http, https] = [new Browser(url), new Browser(url)];
    const Origin = "https://console.example.com";
    const end = async (method: string, body?: object) => {
      await http.signIn();
      await https.signIn({ headers: { Origin } });
      const headers = { Cookie: `${http.cookie}; ${https.cookie}` };
      const response = await http.send(method, "/console/session", { ...(body && { body }), headers });
      expect(await Promise.all([http.sessionStatus(), https.sessionStatus()])).toEqual([401, 401]);
      http.cookie = https.cookie = "";
      const cookies = response.headers.getSetCookie().map((cookie) => cookie.replace(/=[\w-]{86};/, "=new;"));
      return cookies.map((cookie) => cookie.split(" Path")[0]).sort();
    };
    const secure = `__Secure-${COOKIE}=; Max-Age=0;`;
    expect(await end("DELETE")).toEqual([secure, `${COOKIE}=; Max-Age=0;`]);
    expect(await end("POST", { name: "Ada", token: TOKEN })).toEqual([secure, `${COOKIE}=new; Max-Age=28800;`]);
  });
});

describe("a request that another site makes a browser send", () => {
  const SAME_ORIGIN = { "Sec-Fetch-Site": "same-origin" };
  const NO_SITE = { "Sec-Fetch-Site": "" };

  test.each<[object, "allowed" | "refused"]>([
    [SAME_ORIGIN, "allowed"],
    [{ ...SAME_ORIGIN, Origin: `http://${host}` }, "allowed"],
    [{ Origin: `http://${host}` }, "allowed"],
    [{ Origin: `https://${host}` }, "allowed"],
    [{}, "refused"],
    [NO_SITE, "refused"],
    [{ "Sec-Fetch-Site": "same-site" }, "refused"],
    [{ "Sec-Fetch-Site": "none" }, "refused"],
    [{ "Sec-Fetch-Site": "cross-site", Origin: `http://${host}` }, "refused"],
    [{ Origin: "null" }, "refused"],
    [{ Origin: "https://evil.test" }, "refused"],
    [{ Origin: `http://${host}.evil.test` }, "refused"],
    [{ Origin: "http://127.0.0.1:1" }, "refused"],
  ])("with %j is %s, for every write", async (headers, outcome) => {
    const { cookie } = await openBrowser(internal);
    const post = { method: "POST", body: JSON.stringify({ token: TOKEN, name: "Ada" }) };
    const writes: [string, RequestInit][] = [
      ["/console/trpc/emails.count", { method: "POST", body: "" }],
      ["/console/forms", post],
      ["/console/session", post],
      ["/console/session", { method: "DELETE" }],
    ];
    const statuses: number[] = [];
    for (const [path, init] of writes) {
      const sent = { "Content-Type": "application/json", Cookie: cookie, ...headers } as Record<string, string>;
      statuses.push((await fetch(url + path, { ...init, headers: sent })).status);
    }
    expect(statuses).toEqual(outcome === "allowed" ? [200, 405, 204, 204] : [403, 403, 403, 403]);
  });

  test.each(["/console/session", "/console/trpc/emails.count"])(
    "a POST to %s that is not JSON is 415, so a form cannot send it",
    async (path) => {
      const { cookie } = await openBrowser(internal);
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
        const headers = { "Content-Type": type, Cookie: cookie, "Sec-Fetch-Site": "same-origin" };
        expect((await fetch(url + path, { method: "POST", body: "{}", headers })).status).toBe(415);
      }
    },
  );
});
