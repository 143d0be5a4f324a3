import { expect, test } from "vitest";
import { startHolderGateway } from "../gateway/holder-gateway.js";
import { validateResponse } from "../support/validate-response.js";

// support/gateway.ts validates every response of every test.

test("an undocumented status, field or code, a wrong type and a missing header are rejected", async () => {
  const { listingId, send } = await startHolderGateway();
  const path = `/v1/listings/${listingId}`;
  const { headers, json } = await send({ path });
  const good = json as object;
  const validate = (body: object, status = 200, sent = headers) => validateResponse("GET", path, status, sent, body);
  validate(good);
  expect(() => validate(good, 418)).toThrow("418 is not documented");
  expect(() => validate({ ...good, secret: 1 })).toThrow("additional");
  expect(() => validate({ ...good, title: 1 })).toThrow("/title must be string");
  expect(() => validate({ ...good, createdAt: "yesterday" })).toThrow("/createdAt");
  expect(() => validate({ ...good, id: undefined })).toThrow("'id'");
  const { "x-correlation-id": correlationId, ...others } = headers;
  expect(() => validate(good, 200, others)).toThrow("no X-Correlation-Id");
  expect(() => validate(good, 200, { ...headers, ratelimit: "many" })).toThrow("RateLimit");
  const error = { code: "FORBIDDEN", message: "No.", correlationId };
  expect(() => validate(error, 404)).toThrow("code FORBIDDEN");
});
