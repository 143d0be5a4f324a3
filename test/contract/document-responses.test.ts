import { beforeAll, describe, expect, it } from "vitest";
import { ERRORS } from "../../server/errors.js";
import { createTestDatabase } from "../support/database.js";
import { makeListing } from "../support/factories.js";
import { type HttpRequest, type KeyHolder, startTestGateway, type TestGateway } from "../support/gateway.js";
import { errorCodeOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { validateResponse } from "../support/validate-response.js";

let gateway: TestGateway;
let holder: KeyHolder;
let listingId: string;
beforeAll(async () => {
  gateway = await startTestGateway();
  holder = await gateway.addKeyHolder();
  listingId = (await makeListing(await gateway.services(), holder.userId, { maxPeopleInListing: 6 })).id;
});

/** Sends a request, and throws unless the OpenAPI document describes the response. */
async function send(sent: HttpRequest, at = gateway): Promise<HttpResponse> {
  const answer = await at.request({ key: holder.key, ...sent });
  validateResponse(sent.method ?? "GET", sent.path, answer.status, answer.headers, answer.json);
  return answer;
}

const post = (body: unknown, headers: Record<string, string> = {}) =>
  send({ method: "POST", path: "/v1/forms", body, headers });

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

describe("the OpenAPI document describes", () => {
  it("every success response, with and without optional values, for GET and HEAD", async () => {
    const created = await post({ ...uniqueStay(listingId), guestEmail: "guest@example.com" });
    const { id } = created.json as { id: string };
    const again = await post(uniqueStay(listingId), { "Idempotency-Key": "one" });
    expect([created.status, again.status]).toEqual([201, 201]);
    const put = await send({ method: "PUT", path: `/v1/forms/${id}`, body: uniqueStay(listingId) });
    expect(put.status).toBe(200);
    const paths = [
      "/v1/forms",
      "/v1/forms?limit=1",
      `/v1/forms?listingId=${UNKNOWN_ID}`,
      `/v1/forms/${id}`,
      "/v1/listings",
      `/v1/listings/${listingId}`,
    ];
    for (const path of paths) {
      expect((await send({ path })).status).toBe(200);
      expect((await send({ method: "HEAD", path })).status).toBe(200);
    }
  });

  it("the response of a replay", async () => {
    const body = uniqueStay(listingId);
    await post(body);
    expect((await post(body)).headers["idempotent-replayed"]).toBe("true");
  });

  it("the response of every error code that a request can cause", async () => {
    const other = uniqueStay(listingId);
    await post(other, { "Idempotency-Key": "taken" });
    const answers = [
      await send({ path: "/v1/forms", key: null }),
      await send({ method: "POST", path: "/v1/forms", key: holder.readOnlyKey, body: uniqueStay(listingId) }),
      await send({ path: `/v1/forms/${UNKNOWN_ID}` }),
      await post(uniqueStay(UNKNOWN_ID)),
      await send({ path: "/v1/forms?cursor=x" }),
      await send({ path: "/v1/listings?limit=x" }),
      await post({ ...uniqueStay(listingId), unknown: 1 }),
      await post({ ...uniqueStay(listingId), numberOfGuests: 7 }),
      await post("{"),
      await post("x", { "Content-Type": "text/plain" }),
      await post({ ...uniqueStay(listingId), more: "x".repeat(17_000) }),
      await post(uniqueStay(listingId), { "Idempotency-Key": "taken" }),
    ];
    const seen = new Set(answers.map(errorCodeOf));
    const rest = ["RATE_LIMITED", "INTERNAL_ERROR"];
    expect([...seen, ...rest].sort()).toEqual(Object.keys(ERRORS).sort());
    expect(answers.map(({ status }) => status)).toEqual([
      401, 403, 404, 404, 400, 400, 400, 400, 400, 415, 413, 422,
    ]);
  });

  it("the response to a request over the rate limit", async () => {
    const limited = await startTestGateway({ RATE_LIMIT_MAX: 1 });
    const { key } = await limited.addKeyHolder();
    await send({ path: "/v1/forms", key }, limited);
    const answer = await send({ path: "/v1/forms", key }, limited);
    expect([answer.status, errorCodeOf(answer)]).toEqual([429, "RATE_LIMITED"]);
  });

  it("the response while the database is unreachable", async () => {
    const proxy = await TcpProxy.start((await createTestDatabase()).url);
    const withoutDatabase = await startTestGateway({ DATABASE_URL: proxy.url });
    const { key } = await withoutDatabase.addKeyHolder();
    await send({ path: "/v1/forms", key }, withoutDatabase);
    proxy.cut();
    const answer = await send({ path: "/v1/forms", key }, withoutDatabase);
    expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
    proxy.restore();
  });
});

describe("validateResponse", () => {
  let good: HttpResponse;
  beforeAll(async () => {
    good = await gateway.request({ path: `/v1/listings/${listingId}`, key: holder.key });
  });
  const validate = (changes: { status?: number; headers?: object; json?: object; path?: string }) => () =>
    validateResponse(
      "GET",
      changes.path ?? `/v1/listings/${listingId}`,
      changes.status ?? good.status,
      { ...good.headers, ...changes.headers },
      { ...(good.json as object), ...changes.json },
    );

  it("an undocumented status, field or code, a wrong type and a missing header are rejected", () => {
    expect(validate({})).not.toThrow();
    expect(validate({ status: 418 })).toThrow("418 is not documented");
    expect(validate({ json: { secret: 1 } })).toThrow("additional");
    expect(validate({ json: { title: 1 } })).toThrow("/title must be string");
    expect(validate({ json: { createdAt: "yesterday" } })).toThrow("/createdAt");
    expect(validate({ json: { id: undefined } })).toThrow("'id'");
    expect(validate({ headers: { "x-correlation-id": undefined } })).toThrow("no X-Correlation-Id");
    expect(validate({ headers: { ratelimit: "many" } })).toThrow("RateLimit");
    const error = { code: "FORBIDDEN", message: "No.", correlationId: UNKNOWN_ID };
    const wrong = () => validateResponse("GET", `/v1/forms/${UNKNOWN_ID}`, 404, good.headers, error);
    expect(wrong).toThrow("code FORBIDDEN");
  });
});
