import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeListing } from "../factories.js";
import {
  errorCodeOf,
  type KeyHolder,
  startTestGateway,
  type TestGateway,
  uniqueStay,
} from "../gateway-harness.js";
import { createTestDatabase } from "../harness.js";

/** The longest single wait; a request is answered 300 ms after it at the latest, several waits in a row or not. */
const WAIT_MS = 2_000;

let gateway: TestGateway;
let holder: KeyHolder;
let listingId: string;
/** Holds what requests wait for. */
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

const newCreate = () => ({ method: "POST", path: "/v1/forms", key: holder.key, body: uniqueStay(listingId) });

test("a request that waits several times in a row is answered within the longest single wait", async () => {
  expect((await gateway.request({ path: "/v1/listings", key: holder.key })).status).toBe(200);
  await blocker.query("BEGIN");
  await blocker.query("SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
  const began = performance.now();
  // One waits for the lock; the other for the only connection, and then for the lock.
  const creates = [newCreate(), newCreate()];
  const answers = await Promise.all(creates.map((create) => gateway.request(create)));
  const took = performance.now() - began;
  for (const answer of answers) {
    expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
    expect(answer.headers["retry-after"]).toBe("1");
  }
  expect(took, "milliseconds of both").toBeLessThan(2 * WAIT_MS - 200);
  await blocker.query("ROLLBACK");
  // What became of it later has spoilt no connection, and is there once at most.
  for (const create of creates) {
    await expect.poll(async () => (await gateway.request(create)).status).toBe(201);
  }
  expect(await gateway.countRows("forms")).toBe(2);
});

test("the time in which a client sends its body does not count", async () => {
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
