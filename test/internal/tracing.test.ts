import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { makeListing, TEST_SECRET } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { loadedPackages, REPORT_MODULES } from "../support/loaded-packages.js";
import { freePort, listenLocally } from "../support/network.js";
import { spawnNode } from "../support/processes.js";
import { fixedStay } from "../support/stays.js";
import { createInternalClient, spawnInternalGateway, startInternalGateway, TOKEN } from "./internal-gateway.js";

/** A receiver of traces, and a gateway that sends its traces there. */
async function startTracedGateway(env: Record<string, string> = {}) {
  const bodies: Buffer[] = [];
  const batches: unknown[] = [];
  const receiver = createServer(async (req, res) => {
    const { method, url, headers } = req;
    bodies.push(await buffer(req));
    batches.push({ method, url, type: headers["content-type"], extra: headers["x-extra"] });
    res.setHeader("Content-Type", "application/x-protobuf").end();
  });
  const port = await listenLocally(receiver);
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, ...env };
  // OpenTelemetry reads its settings from the environment.
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value);
  const { url, gateway } = await startInternalGateway(settings).finally(() => vi.unstubAllEnvs());
  /** Stops the gateway, and returns what it has sent. */
  const stop = async () => {
    await gateway.stop();
    receiver.close();
    return { batches, bytes: Buffer.concat(bodies) };
  };
  return { url, gateway, stop };
}

describe("traces with OTEL_EXPORTER_OTLP_ENDPOINT", async () => {
  const traceId = randomBytes(16).toString("hex");
  const { url, gateway, stop } = await startTracedGateway({
    OTEL_EXPORTER_OTLP_HEADERS: "x-extra=yes",
    OTEL_SERVICE_NAME: "forms-of-the-test",
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test-stage",
  });
  const { userId, key, keyId } = await gateway.addKeyHolder();
  const listing = await makeListing(await gateway.services(), userId);
  const { status, headers } = await gateway.request({
    method: "POST",
    path: "/v1/forms?email=nobody@guests.test",
    key,
    headers: { "Idempotency-Key": "key of the guest", traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
    body: fixedStay(listing.id, { guestEmail: "ada@guests.test" }),
  });
  await createInternalClient(url).users.get.query({ id: userId });
  const { batches, bytes } = await stop();
  const call = gateway.log.find(({ operation }) => operation === "users.get");

  test("spans are exported by OTLP over HTTP, with the headers and resource attributes of the OTEL_* settings", () => {
    const expected = { method: "POST", url: "/v1/traces", type: "application/x-protobuf", extra: "yes" };
    expect(batches.length).toBeGreaterThan(0);
    for (const batch of batches) expect(batch).toEqual(expected);
    for (const text of ["forms-of-the-test", "deployment.environment", "test-stage"])
      expect(bytes.includes(text), text).toBe(true);
  });

  test("spans have the correlation id, key id, operation, statements and the trace id of the caller", () => {
    expect(status).toBe(201);
    const ids = [headers["x-correlation-id"] ?? "", keyId, String(call?.correlationId)];
    for (const text of [...ids, "forms.create", "users.get", "http.response.status_code"]) {
      expect(text).not.toBe("");
      expect(bytes.includes(text), text).toBe(true);
    }
    expect(bytes.includes("pg_advisory_xact_lock"), "a statement").toBe(true);
    // The request and two statements, each with the trace id.
    const spans = bytes.toString("latin1").split(Buffer.from(traceId, "hex").toString("latin1")).length - 1;
    expect(spans).toBeGreaterThanOrEqual(3);
  });

  test("spans have no key, token, email address or value of a statement", () => {
    const secrets = [key, key.slice(12), TOKEN, "ada@guests.test", "nobody@guests.test", "key of the guest"];
    for (const secret of secrets) expect(bytes.includes(secret), secret).toBe(false);
  });
});

test.each([
  ["by default, a request whose client asks for no trace is traced", {}, "00", true],
  ["with a ratio of 0, a request whose client asks for a trace is not", { OTEL_TRACES_SAMPLER_ARG: "0" }, "01", false],
  ["with OTEL_SDK_DISABLED no request is", { OTEL_SDK_DISABLED: "TRUE" }, "01", false],
])("clients do not decide which requests are traced: %s", async (_, env, flags, isTraced) => {
  const { gateway, stop } = await startTracedGateway(env);
  const traceId = randomBytes(16).toString("hex");
  const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}` };
  expect((await gateway.request({ path: "/v1/listings", headers })).status).toBe(401);
  const { bytes } = await stop();
  expect(bytes.includes(Buffer.from(traceId, "hex"))).toBe(isTraced);
});

test("an unreachable receiver fails no request and is logged once", async () => {
  const { url: DATABASE_URL } = await createTestDatabase();
  const { publicUrl, service } = await spawnInternalGateway(["--no-worker"], {
    DATABASE_URL,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${await freePort()}/spans`,
    OTEL_BSP_SCHEDULE_DELAY: "20",
    OTEL_EXPORTER_OTLP_TIMEOUT: "200",
  });
  // Several batches, each of which fails.
  for (let n = 0; n < 20; n++) {
    expect((await sendRequest(`${publicUrl}/v1/listings`, undefined)).status).toBe(401);
    await sleep(50);
  }
  const { stderr, code } = await service.stop();
  expect(code).toBe(0);
  expect(stderr.split("\n").filter((line) => line.includes("traces cannot be sent"))).toHaveLength(1);
});

// The metrics library loads only @opentelemetry/api.
test.each([{}, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_SDK_DISABLED: "TRUE" }])(
  "without their settings or with OTEL_SDK_DISABLED no OpenTelemetry SDK, exporter, Redis or mail client is loaded: %o",
  async (otel) => {
    const { url: DATABASE_URL } = await createTestDatabase();
    const env = { DATABASE_URL, APP_SECRETS: TEST_SECRET, INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: "0", ...otel };
    const program = join(packageRoot(), "dist/main.js");
    const service = spawnNode([...REPORT_MODULES, program, "serve", "--port", "0"], { env });
    await service.waitForLine(/^Listening on/);
    const packages = loadedPackages((await service.stop()).stderr);
    expect(packages).toContain("prom-client");
    expect(packages.filter((name) => /^@opentelemetry\/(?!api$)|^@redis|^nodemailer$/.test(name))).toEqual([]);
  },
);
