import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeListing } from "../factories.js";
import { type Holder, startTestGateway, stay, type TestGateway } from "../gateway-harness.js";
import { freePort, type Running, spawnNode } from "../harness.js";

const root = packageRoot();
const judges = join(root, ".ci", "judges");
const tool = (path: string) => join(judges, "node_modules", path);
const REDOCLY = tool("@redocly/cli/bin/cli.js");
const SPECTRAL = tool("@stoplight/spectral-cli/dist/index.js");
const PRISM = tool("@stoplight/prism-cli/dist/index.js");
const TYPES = tool("openapi-typescript/bin/cli.js");
const TSC = tool("typescript/bin/tsc");

const PATIENCE = 120_000;

const run = (script: string, args: string[], env: Record<string, string> = {}) =>
  promisify(execFile)(process.execPath, [script, ...args], {
    cwd: root,
    env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", ...env },
  });

describe("judges from outside", () => {
  let gateway: TestGateway;
  let holder: Holder;
  let listingId: string;
  beforeAll(async () => {
    gateway = await startTestGateway();
    holder = await gateway.addHolder();
    listingId = (await makeListing(await gateway.services(), holder.userId)).id;
  });

  it("Redocly finds nothing in the document", { timeout: PATIENCE }, async () => {
    const args = [
      "lint",
      "--config",
      "test/judges/redocly.yaml",
      "--format",
      "json",
      "gateway/openapi/openapi.json",
    ];
    const { stdout } = await run(REDOCLY, args);
    expect(JSON.parse(stdout)).toMatchObject({
      totals: { errors: 0, warnings: 0, ignored: 0 },
      problems: [],
    });
  });

  it("Spectral, with OWASP's rules, finds nothing in the document", { timeout: PATIENCE }, async () => {
    const args = ["lint", "-r", "test/judges/spectral.yaml", "--fail-severity", "hint", "--format", "json"];
    const { stdout } = await run(SPECTRAL, [...args, "--quiet", "gateway/openapi/openapi.json"]);
    expect(JSON.parse(stdout)).toEqual([]);
  });

  it("Prism, between client and server, sees no violation", { timeout: PATIENCE }, async () => {
    const proxy = await startPrism(gateway.url);
    const send = async (
      method: string,
      path: string,
      sent: { key?: string; body?: unknown; id?: string } = {},
    ) => {
      const { key = holder.key, body, id } = sent;
      const headers: Record<string, string> = { Authorization: `Bearer ${key}` };
      if (body) headers["Content-Type"] = "application/json";
      if (id) headers["Idempotency-Key"] = id;
      const answer = await fetch(proxy.url + path, {
        method,
        headers,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      expect(answer.headers.get("sl-violations"), `${method} ${path}`).toBeNull();
      expect(answer.headers.get("x-correlation-id"), `${method} ${path} reached the server`).not.toBeNull();
      return { status: answer.status, json: (await answer.json()) as { id: string; nextCursor: string } };
    };
    const body = stay(listingId);
    const created = await send("POST", "/v1/forms", { body, id: "prism" });
    await send("POST", "/v1/forms", { body: stay(listingId) });
    const path = `/v1/forms/${created.json.id}`;
    const first = await send("GET", `/v1/forms?limit=1&listingId=${listingId}`);
    const nowhere = "00000000-0000-4000-8000-000000000000";
    const answers = [
      created,
      first,
      await send("POST", "/v1/forms", { body, id: "prism" }),
      await send("GET", `/v1/forms?limit=1&listingId=${listingId}&cursor=${first.json.nextCursor}`),
      await send("PUT", path, { body: stay(listingId) }),
      await send("GET", path),
      await send("GET", "/v1/listings"),
      await send("GET", `/v1/listings/${listingId}`),
      await send("GET", path, { key: "grf_ro_wrong" }),
      await send("PUT", path, { body, key: holder.readOnlyKey }),
      await send("GET", `/v1/listings/${nowhere}`),
      await send("GET", "/v1/forms?cursor=altered"),
      await send("POST", "/v1/forms", { body: { ...body, checkOutDate: body.checkInDate } }),
      await send("POST", "/v1/forms", { body: stay(listingId), id: "prism" }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([
      201, 200, 201, 200, 200, 200, 200, 200, 401, 403, 404, 400, 400, 422,
    ]);
    // And it does look: what the document does not allow is reported.
    const wrong = await fetch(`${proxy.url}/v1/forms?limit=many`, { headers: { "X-API-Key": holder.key } });
    expect(wrong.headers.get("sl-violations")).toContain("limit");
    await proxy.prism.end();
  });

  it("a client that openapi-typescript generates compiles and works", { timeout: PATIENCE }, async () => {
    const out = join(judges, "dist");
    await mkdir(out, { recursive: true });
    await run(TYPES, ["gateway/openapi/openapi.json", "--output", join(out, "schema.d.ts")]);
    const strict = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"];
    const modules = ["--module", "nodenext", "--target", "es2022", "--types", "node"];
    await run(TSC, [...strict, ...modules, "--outDir", out, join(judges, "client.ts")]);
    const { stdout } = await run(join(out, "client.js"), [], {
      GUEST_FORMS_BASE_URL: gateway.url,
      GUEST_FORMS_API_KEY: holder.key,
      LISTING_ID: listingId,
    });
    expect(JSON.parse(stdout)).toEqual({
      status: 201,
      guests: 4,
      listed: true,
      missing: [404, "RESOURCE_NOT_FOUND"],
    });
  });
});

async function startPrism(upstream: string): Promise<{ url: string; prism: Running }> {
  const port = await freePort();
  const document = join(root, "gateway", "openapi", "openapi.json");
  const prism = spawnNode([PRISM, "proxy", document, upstream, "--port", String(port)]);
  await prism.waitForLine(/Prism is listening/, 60_000);
  return { url: `http://127.0.0.1:${port}`, prism };
}
