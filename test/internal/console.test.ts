import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import express, { Router } from "express";
import { describe, expect, test } from "vitest";
import { servePages } from "../../gateway/console/pages.js";
import { createConsoleRouter } from "../../gateway/console/router.js";
import { sendEnvelope } from "../../gateway/http/envelope.js";
import { PROCEDURES } from "../../gateway/http/procedures.js";
import { listen } from "../../gateway/runtime/listening.js";
import { createContext, type Principal } from "../../server/access/context.js";
import { createCallerFactory } from "../../server/trpc.js";
import { afterFile } from "../support/after-file.js";
import { catchErrorCode } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { UUID } from "../support/public-fields.js";
import { makeTempFolder } from "../support/run-tool.js";
import { Browser, COOKIE } from "./console-client.js";
import { errorOf, startInternalGateway, TOKEN } from "./internal-gateway.js";

const { url, gateway } = await startInternalGateway();
const services = await gateway.services();
const { userId, principal } = await makeListingOwner(services);
const browser = new Browser(url);
await browser.signIn({ name: "Ada" });

describe("the pages", () => {
  test.each(["/console", "/console/", "/console/forms/1?tab=emails", "/console/emails", "/console/%E0%A4%A"])(
    "%s is the page, under a policy without inline scripts and styles, other origins and frames",
    async (path) => {
      const { status, text, headers } = await new Browser(url).send("GET", path);
      expect([status, text.slice(0, 15).toLowerCase()]).toEqual([200, "<!doctype html>"]);
      expect(Object.fromEntries(headers)).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "content-security-policy":
          "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data:;connect-src 'self';" +
          "base-uri 'none';form-action 'none';frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "x-frame-options": "DENY",
      });
      expect(headers.has("strict-transport-security")).toBe(false);
      const head = await new Browser(url).send("HEAD", path);
      expect([head.status, head.text, head.headers.get("content-length")]).toEqual([
        200,
        "",
        headers.get("content-length"),
      ]);
      const put = await new Browser(url).send("PUT", path);
      expect([put.status, put.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    },
  );

  test("every file that the page names is served, immutable", async () => {
    const { text } = await browser.send("GET", "/console");
    const paths = [...text.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = ""]) => path);
    expect(paths.length).toBeGreaterThan(1);
    for (const path of paths) {
      const { status, headers } = await browser.send("GET", path);
      expect([path, status, headers.get("cache-control")]).toEqual([path, 200, "public, max-age=31536000, immutable"]);
    }
  });

  test.each(["/console/assets", "/console/assets/", "/console/assets/gone-1.js"])(
    "%s is 404 in the envelope",
    async (path) => {
      const { status, json, headers } = await browser.send("GET", path);
      expect([status, json.code, headers.get("cache-control")]).toEqual([404, "RESOURCE_NOT_FOUND", "no-store"]);
    },
  );

  test("are not on the public port", async () => {
    const { key } = await gateway.addKeyHolder();
    for (const path of ["/console", "/console/session", "/console/assets/console.js", "/console/trpc/users.list"]) {
      for (const credential of [undefined, key, TOKEN]) {
        for (const method of ["GET", "POST"]) {
          const headers = { Cookie: browser.cookie, "Sec-Fetch-Site": "same-origin" };
          const { status } = await gateway.request({ method, path, key: credential, headers });
          expect([path, method, status]).toEqual([path, method, 404]);
        }
      }
    }
  });

  async function serve(folder: string): Promise<string> {
    const router = Router({ caseSensitive: true, strict: true });
    servePages(router, folder);
    const log = { error() {}, warn() {} } as never;
    const server = createServer(express().use("/console", router).use(sendEnvelope(log)));
    const address = await listen(server, { ...gateway.settings, PORT: 0 }, "PORT");
    afterFile(() => server.close());
    return address;
  }

  test("assets have their type, and are compressed for clients that accept it", async () => {
    const folder = await makeTempFolder("console");
    await mkdir(join(folder, "assets"));
    await writeFile(join(folder, "index.html"), "<!doctype html>");
    await writeFile(join(folder, "assets/a-1.js"), "1;".repeat(1000));
    await writeFile(join(folder, "assets/a-1.css"), "a{}");
    const assets = `${await serve(folder)}/console/assets`;
    const script = await fetch(`${assets}/a-1.js`, { headers: { "Accept-Encoding": "gzip" } });
    expect(Object.fromEntries(script.headers)).toMatchObject({
      "content-type": "text/javascript; charset=utf-8",
      "content-encoding": "gzip",
      vary: "Accept-Encoding",
    });
    expect(await script.text()).toBe("1;".repeat(1000));
    const style = await fetch(`${assets}/a-1.css`, { headers: { "Accept-Encoding": "identity" } });
    expect(style.headers.get("content-type")).toBe("text/css; charset=utf-8");
    expect(style.headers.get("content-encoding")).toBeNull();
  });

  test("that have not been built are 404, with the command that builds them", async () => {
    const address = await serve(join(await makeTempFolder("console"), "missing"));
    const response = await fetch(`${address}/console`);
    expect([response.status, await response.text()]).toEqual([404, expect.stringContaining("npm run build")]);
  });
});

describe("the procedures", () => {
  const UNAUTHENTICATED = { serviceCode: "UNAUTHENTICATED", httpStatus: 401 };

  test("are called as the operator with the name of the session, whatever X-User-Id says", async () => {
    const { users, forms, audit } = browser.procedures({ "X-User-Id": userId });
    expect((await users.get.query({ id: userId })).id).toBe(userId);
    expect(await errorOf(forms.list.query({}))).toMatchObject({ serviceCode: "FORBIDDEN" });
    const { id: subjectId } = await users.create.mutate({ email: "ada@people.test" });
    const trail = await audit.trail.query({ subjectId });
    expect(trail).toMatchObject([{ actor: "operator", actorName: "Ada", action: "user.created", userId: null }]);
  });

  test("need a session: the token is not accepted instead", async () => {
    const stranger = new Browser(url);
    const error = await errorOf(stranger.procedures().users.get.query({ id: userId }));
    expect(error).toMatchObject({ ...UNAUTHENTICATED, correlationId: expect.stringMatching(UUID) });
    const withToken = stranger.procedures({ Authorization: `Bearer ${TOKEN}` });
    expect(await errorOf(withToken.console.overview.query())).toMatchObject(UNAUTHENTICATED);
    for (const cookie of [`${COOKIE}=`, `${COOKIE}=${"A".repeat(43)}`, `other=${browser.cookie}`]) {
      stranger.cookie = cookie;
      expect(await errorOf(stranger.procedures().users.get.query({ id: userId }))).toMatchObject(UNAUTHENTICATED);
    }
  });

  test("a session is no credential outside of the console", async () => {
    for (const path of ["/trpc/emails.count", "/metrics"]) {
      expect((await browser.send("GET", path)).status).toBe(401);
    }
  });

  test("are only called by POST", async () => {
    for (const method of ["GET", "HEAD", "PUT"]) {
      const { status, headers } = await browser.send(method, "/console/trpc/emails.count");
      expect([method, status, headers.get("allow")]).toEqual([method, 405, "POST"]);
    }
  });

  test("are those of the service without imports, erasure and rotation, and two for the operator only, and are counted", async () => {
    const router = createConsoleRouter(services, { read: async () => [], stop() {} });
    const others = PROCEDURES.filter((name) => !/^(onboarding|secrets|people)\./.test(name));
    expect(Object.keys(router._def.procedures)).toEqual(
      expect.arrayContaining([...others, "console.overview", "console.health"]),
    );
    expect(Object.keys(router._def.procedures)).toHaveLength(others.length + 2);
    const caller = createCallerFactory(router);
    const codes = async (who: Principal | null) => {
      const { overview, health } = caller(createContext(services, who)).console;
      return [await catchErrorCode(overview()), await catchErrorCode(health())];
    };
    expect(await codes(principal)).toEqual(["FORBIDDEN", "FORBIDDEN"]);
    expect(await codes(null)).toEqual(["UNAUTHENTICATED", "UNAUTHENTICATED"]);
    const { status } = await browser.send("POST", "/console/trpc/emails.count", { body: {} });
    expect(status).toBe(200);
    const metrics = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${TOKEN}` } });
    expect(await metrics.text()).toMatch(/requests_total\{operation="emails.count",status="200"\} [1-9]/);
  });

  test("log lines name the procedure, and mask what could be a secret", async () => {
    await browser.procedures().emails.count.query();
    await browser.send("GET", `/console/forms/${userId}`);
    await expect
      .poll(() => gateway.log.filter(({ msg }) => msg === "request").map(({ route, operation }) => [route, operation]))
      .toEqual(
        expect.arrayContaining([
          ["/console/trpc/{procedure}", "emails.count"],
          ["/console/{page}", undefined],
        ]),
      );
    expect(JSON.stringify(gateway.log)).not.toContain(`/console/forms/${userId}`);
  });
});
