import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeListing } from "../support/factories.js";
import { type KeyHolder, startTestGateway, type TestGateway } from "../support/gateway.js";
import { freePort } from "../support/network.js";
import { type RunningProcess, spawnNode } from "../support/processes.js";
import { uniqueStay } from "../support/stays.js";

const root = packageRoot();
const toolsFolder = join(root, ".ci", "openapi-checks");
const tool = (path: string) => join(toolsFolder, "node_modules", path);
const REDOCLY = tool("@redocly/cli/bin/cli.js");
const SPECTRAL = tool("@stoplight/spectral-cli/dist/index.js");
const PRISM = tool("@stoplight/prism-cli/dist/index.js");
const TYPES = tool("openapi-typescript/bin/cli.js");
const TSC = tool("typescript/bin/tsc");

const TIMEOUT_MS = 120_000;

const run = (script: string, args: string[], env: Record<string, string> = {}) =>
  promisify(execFile)(process.execPath, [script, ...args], {
    cwd: root,
    env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", ...env },
  });

describe("third-party checks of the OpenAPI document", () => {
  let gateway: TestGateway;
  let holder: KeyHolder;
  let listingId: string;
  beforeAll(async () => {
    gateway = await startTestGateway();
    holder = await gateway.addKeyHolder();
    listingId = (await makeListing(await gateway.services(), holder.userId)).id;
  });

  it("Redocly reports no problems", { timeout: TIMEOUT_MS }, async () => {
    const args = [
      "lint",
      "--config",
      "test/openapi-checks/redocly.yaml",
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

  it("Spectral with OWASP rules reports no problems", { timeout: TIMEOUT_MS }, async () => {
    const args = ["lint", "-r", "test/openapi-checks/spectral.yaml", "--fail-severity", "hint", "--format", "json"];
    const { stdout } = await run(SPECTRAL, [...args, "--quiet", "gateway/openapi/openapi.json"]);
    expect(JSON.parse(stdout)).toEqual([]);
  });

  it("Prism as a validating proxy reports no violations", { timeout: TIMEOUT_MS }, async () => {
    const proxy = await startPrism(gateway.url);
    const send = async (
      method: string,
      path: string,
      options: { key?: string; body?: unknown; idempotencyKey?: string } = {},
    ) => {
      const { key = holder.key, body, idempotencyKey } = options;
      const headers: Record<string, string> = { Authorization: `Bearer ${key}` };
      if (body) headers["Content-Type"] = "application/json";
      if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
      const response = await fetch(proxy.url + path, {
        method,
        headers,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      expect(response.headers.get("sl-violations"), `${method} ${path}`).toBeNull();
      expect(response.headers.get("x-correlation-id"), `${method} ${path} reached the server`).not.toBeNull();
      return { status: response.status, json: (await response.json()) as { id: string; nextCursor: string } };
    };
    const body = uniqueStay(listingId);
    const created = await send("POST", "/v1/forms", { body, idempotencyKey: "prism" });
    await send("POST", "/v1/forms", { body: uniqueStay(listingId) });
    const path = `/v1/forms/${created.json.id}`;
    const firstPage = await send("GET", `/v1/forms?limit=1&listingId=${listingId}`);
    const unknownId = "00000000-0000-4000-8000-000000000000";
    const responses = [
      created,
      firstPage,
      await send("POST", "/v1/forms", { body, idempotencyKey: "prism" }),
      await send("GET", `/v1/forms?limit=1&listingId=${listingId}&cursor=${firstPage.json.nextCursor}`),
      await send("PUT", path, { body: uniqueStay(listingId) }),
      await send("GET", path),
      await send("GET", "/v1/listings"),
      await send("GET", `/v1/listings/${listingId}`),
      await send("GET", path, { key: "grf_ro_wrong" }),
      await send("PUT", path, { body, key: holder.readOnlyKey }),
      await send("GET", `/v1/listings/${unknownId}`),
      await send("GET", "/v1/forms?cursor=altered"),
      await send("POST", "/v1/forms", { body: { ...body, checkOutDate: body.checkInDate } }),
      await send("POST", "/v1/forms", { body: uniqueStay(listingId), idempotencyKey: "prism" }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([
      201, 200, 201, 200, 200, 200, 200, 200, 401, 403, 404, 400, 400, 422,
    ]);
    // Control: a request that the document does not allow is reported.
    const invalid = await fetch(`${proxy.url}/v1/forms?limit=many`, { headers: { "X-API-Key": holder.key } });
    expect(invalid.headers.get("sl-violations")).toContain("limit");
    await proxy.prism.stopOrKill();
  });

  it("a client generated by openapi-typescript compiles and works", { timeout: TIMEOUT_MS }, async () => {
    const out = join(toolsFolder, "dist");
    await mkdir(out, { recursive: true });
    await run(TYPES, ["gateway/openapi/openapi.json", "--output", join(out, "schema.d.ts")]);
    const strict = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"];
    const modules = ["--module", "nodenext", "--target", "es2022", "--types", "node"];
    await run(TSC, [...strict, ...modules, "--outDir", out, join(toolsFolder, "client.ts")]);
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

async function startPrism(upstream: string): Promise<{ url: string; prism: RunningProcess }> {
  const port = await freePort();
  const document = join(root, "gateway", "openapi", "openapi.json");
  const prism = spawnNode([PRISM, "proxy", document, upstream, "--port", String(port)]);
  await prism.waitForLine(/Prism is listening/, 60_000);
  return { url: `http://127.0.0.1:${port}`, prism };
}
