import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/engine.js";
import { asOperator, fixedStay, openTestServices } from "../factories.js";
import { createTestDatabase, freePort, spawnCli, spawnNode } from "../harness.js";
import { createInternalClient, TOKEN } from "./internal-gateway.js";

/** A receiver of OTLP over HTTP that writes each request to a file. */
const RECEIVER = `
  const { createServer } = require("node:http");
  const { appendFileSync } = require("node:fs");
  const [port, file] = process.argv.slice(-2);
  createServer((req, res) => {
    const chunks = [];
    req.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
      const { method, url, headers } = req;
      const body = Buffer.concat(chunks).toString("base64");
      appendFileSync(file, JSON.stringify({ method, url, type: headers["content-type"], extra: headers["x-extra"], body }) + "\\n");
      res.setHeader("Content-Type", "application/x-protobuf").end();
    });
  }).listen(Number(port), "127.0.0.1", () => console.log("ready"));
`;

interface Batch {
  method: string;
  url: string;
  type: string;
  extra?: string;
  body: string;
}

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "guest-forms-traces-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("traces with OTEL_EXPORTER_OTLP_ENDPOINT", () => {
  const traceId = randomBytes(16).toString("hex");
  let batches: Batch[];
  let bytes: Buffer;
  let ids: { correlationId: string; keyId: string; internalCorrelationId: string };
  let key: string;

  beforeAll(async () => {
    const file = join(folder, "batches");
    const [port, internalPort] = [await freePort(), await freePort()];
    const receiver = spawnNode(["-e", RECEIVER, "--", String(port), file]);
    await receiver.waitForLine(/ready/);
    const { url: DATABASE_URL } = await createTestDatabase();
    const operator = asOperator(await openTestServices({ DATABASE_URL, APP_SECRETS: "" }));
    const { id: userId } = await operator.users.create({ email: "host@people.test" });
    const { id: listingId } = await operator.listings.create({
      ownerId: userId,
      title: "Loft",
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      timezone: "Europe/Berlin",
    });
    const issued = await operator.keys.issue({ userId, mode: "READ_WRITE" });
    key = issued.key;
    const service = spawnCli(["serve", "--json"], {
      env: {
        DATABASE_URL,
        PORT: "0",
        INTERNAL_PORT: String(internalPort),
        INTERNAL_TOKEN: TOKEN,
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_EXPORTER_OTLP_HEADERS: "x-extra=yes",
        OTEL_SERVICE_NAME: "forms-of-the-test",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test-stage",
      },
    });
    const [, text = ""] = await service.waitForLine(/^(\{"url".+\})$/, 60_000);
    const response = await fetch(`${JSON.parse(text).url}/v1/forms?email=nobody@guests.test`, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${key}`,
        "Content-Type": "application/json",
        "Idempotency-Key": "key of the guest",
        traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
      },
      body: JSON.stringify(fixedStay(listingId, { guestEmail: "ada@guests.test" })),
    });
    expect(response.status).toBe(201);
    await createInternalClient(`http://127.0.0.1:${internalPort}`).users.get.query({ id: userId });
    const { stderr } = await service.stop();
    const calls = stderr.split("\n").filter((line) => line.includes('"users.get"'));
    ids = {
      correlationId: response.headers.get("x-correlation-id") ?? "",
      keyId: issued.id,
      internalCorrelationId: JSON.parse(calls[0] ?? "{}").correlationId,
    };
    batches = (await readFile(file, "utf8"))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    bytes = Buffer.concat(batches.map(({ body }) => Buffer.from(body, "base64")));
  }, 120_000);

  test("spans are exported by OTLP over HTTP, with the headers and resource attributes of the OTEL_* settings", () => {
    for (const batch of batches) {
      expect(batch).toMatchObject({
        method: "POST",
        url: "/v1/traces",
        type: "application/x-protobuf",
        extra: "yes",
      });
    }
    for (const text of ["forms-of-the-test", "deployment.environment", "test-stage"]) {
      expect(bytes.includes(text), text).toBe(true);
    }
  });

  test("spans have the correlation id, key id, operation, statements and the trace id of the caller", () => {
    for (const text of [
      ids.correlationId,
      ids.keyId,
      ids.internalCorrelationId,
      "forms.create",
      "users.get",
      "http.response.status_code",
    ]) {
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

test("an unreachable receiver fails no request and is logged once", async () => {
  const { url: DATABASE_URL } = await createTestDatabase();
  const service = spawnCli(["serve", "--json"], {
    env: {
      DATABASE_URL,
      PORT: "0",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${await freePort()}/spans`,
      OTEL_BSP_SCHEDULE_DELAY: "20",
      OTEL_EXPORTER_OTLP_TIMEOUT: "200",
    },
  });
  const [, text = ""] = await service.waitForLine(/^(\{"url".+\})$/, 60_000);
  for (let n = 0; n < 20; n++) {
    expect((await fetch(`${JSON.parse(text).url}/v1/listings`)).status).toBe(401);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const { stderr, code } = await service.stop();
  expect(code).toBe(0);
  expect(stderr.split("\n").filter((line) => line.includes("traces cannot be sent")).length).toBe(1);
});

// The metrics library loads only @opentelemetry/api.
test.each([
  ["no OTEL_* settings", {}],
  ["OTEL_SDK_DISABLED", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_SDK_DISABLED: "TRUE" }],
])(
  "with %s no OpenTelemetry SDK or exporter is loaded",
  async (_name, env) => {
    const script = join(folder, "loaded.mjs");
    const serve = join(packageRoot(), "dist/gateway/serve.js");
    const config = join(packageRoot(), "dist/server/config.js");
    const log = join(packageRoot(), "dist/gateway/process/log.js");
    await writeFile(
      script,
      `import Module from "node:module";
     import { startGateway } from ${JSON.stringify(serve)};
     import { readSettings } from ${JSON.stringify(config)};
     import { createLog } from ${JSON.stringify(log)};
     const gateway = await startGateway({ settings: readSettings(), log: createLog("silent"), worker: false });
     const status = (await fetch(gateway.url + "/v1/listings")).status;
     const loaded = Object.keys(Module._cache).filter((path) => /@opentelemetry\\/(?!api\\/)/.test(path));
     console.log(JSON.stringify({ status, loaded, cached: Object.keys(Module._cache).length > 100 }));
     await gateway.stop();`,
    );
    const { url: DATABASE_URL } = await createTestDatabase();
    const { stdout } = await spawnNode([script], { env: { DATABASE_URL, PORT: "0", ...env } }).done;
    expect(JSON.parse(stdout)).toEqual({ status: 401, loaded: [], cached: true });
  },
  60_000,
);
