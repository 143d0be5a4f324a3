import { beforeAll, expect, test } from "vitest";
import { makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import type { HttpResponse } from "../support/response.js";
import { validateResponse } from "../support/validate-response.js";

// support/gateway.ts validates every response of every test.

let path: string;
let good: HttpResponse;
beforeAll(async () => {
  const gateway = await startTestGateway();
  const { userId, key } = await gateway.addKeyHolder();
  path = `/v1/listings/${(await makeListing(await gateway.services(), userId)).id}`;
  good = await gateway.request({ path, key });
});

const validate = (changes: { status?: number; headers?: object; json?: object }) => () =>
  validateResponse(
    "GET",
    path,
    changes.status ?? good.status,
    { ...good.headers, ...changes.headers },
    { ...(good.json as object), ...changes.json },
  );

test("an undocumented status, field or code, a wrong type and a missing header are rejected", () => {
  expect(validate({})).not.toThrow();
  expect(validate({ status: 418 })).toThrow("418 is not documented");
  expect(validate({ json: { secret: 1 } })).toThrow("additional");
  expect(validate({ json: { title: 1 } })).toThrow("/title must be string");
  expect(validate({ json: { createdAt: "yesterday" } })).toThrow("/createdAt");
  expect(validate({ json: { id: undefined } })).toThrow("'id'");
  expect(validate({ headers: { "x-correlation-id": undefined } })).toThrow("no X-Correlation-Id");
  expect(validate({ headers: { ratelimit: "many" } })).toThrow("RateLimit");
  const id = "00000000-0000-4000-8000-000000000000";
  const error = { code: "FORBIDDEN", message: "No.", correlationId: id };
  const wrong = () => validateResponse("GET", `/v1/forms/${id}`, 404, good.headers, error);
  expect(wrong).toThrow("code FORBIDDEN");
});
