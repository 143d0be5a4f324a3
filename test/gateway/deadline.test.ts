import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.js";
import { makeListing } from "../support/factories.js";
import { type KeyHolder, startTestGateway, type TestGateway } from "../support/gateway.js";
import { errorCodeOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

/** The longest single wait. A request gets its response at most 300 ms later, even if it waits several times. */
const WAIT_MS = 2_000;

let gateway: TestGateway;
let holder: KeyHolder;
let listingId: string;
/** Holds the lock that requests wait for. */
let blocker: pg.Client;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  gateway = await startTestGateway({
    DATABASE_URL: url,
    DATABASE_POOL_SIZE: 1,
    DATABASE_CONNECT_TIMEOUT_MS: WAIT_MS,
    DATABASE_STATEMENT_TIMEOUT_MS: WAIT_MS,
    DATABASE_LOCK_TIMEOUT_MS: WAIT_MS - 100,
  });
  holder = await gateway.addKeyHolder();
  listingId = (await makeListing(await gateway.services(), holder.userId)).id;
  blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
});
afterAll(() => blocker.end());

const uniqueCreate = () => ({
  method: "POST",
  path: "/v1/forms",
  key: holder.key,
  body: uniqueStay(listingId),
});

test("a request that waits for a connection and then for a lock gets 503 within the longest single wait", async () => {
  expect((await gateway.request({ path: "/v1/listings", key: holder.key })).status).toBe(200);
  await blocker.query("BEGIN");
  await blocker.query("SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
  const began = performance.now();
  // One waits for the lock, the other for the only connection and then for the lock.
  const creates = [uniqueCreate(), uniqueCreate()];
  const answers = await Promise.all(creates.map((create) => gateway.request(create)));
  const took = performance.now() - began;
  for (const answer of answers) {
    expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
    expect(answer.headers["retry-after"]).toMatch(/^[123]$/);
  }
  expect(took, "milliseconds of both").toBeLessThan(2 * WAIT_MS - 200);
  await blocker.query("ROLLBACK");
  // The connection is still usable, and each form exists at most once.
  for (const create of creates) {
    await expect.poll(async () => (await gateway.request(create)).status).toBe(201);
  }
  expect(await gateway.countRows("forms")).toBe(2);
});

test("the time a client takes to send the body does not count toward the deadline", async () => {
  const body = JSON.stringify(uniqueStay(listingId));
  const wire = await gateway.openConnection();
  const head = ["POST /v1/forms HTTP/1.1", "Host: x", `X-API-Key: ${holder.key}`];
  const type = ["Content-Type: application/json", `Content-Length: ${body.length}`, "", ""];
  wire.write([...head, ...type].join("\r\n") + body.slice(0, 10));
  await new Promise((resolve) => setTimeout(resolve, WAIT_MS + 1_000));
  wire.write(body.slice(10));
  expect((await wire.readResponse("POST", "/v1/forms")).status).toBe(201);
  wire.close();
});
