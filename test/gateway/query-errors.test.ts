import { expect, test } from "vitest";
import type { FieldError } from "../../server/errors.js";
import { startTestGateway } from "../support/gateway.js";

const gateway = await startTestGateway();
const { key } = await gateway.addKeyHolder();

const requestErrors = async (path: string) => {
  const { json, text } = await gateway.request({ path, key });
  return { errors: (json as { errors: FieldError[] }).errors, text };
};

test("an unknown name is reported as a parameter in a query, and as a property in a body", async () => {
  const issue = "is not a known parameter";
  const { errors: queryErrors } = await requestErrors("/v1/forms?offset=1&__proto__=1&limit=1&limit=2");
  expect(queryErrors).toEqual([
    { field: "limit", issue: "must be sent once" },
    { field: "offset", issue },
    { field: "__proto__", issue },
  ]);
  const answer = await gateway.request({ method: "POST", path: "/v1/forms", key, body: { offset: 1 } });
  const { errors } = answer.json as { errors: FieldError[] };
  expect(errors).toContainEqual({ field: "offset", issue: "is not a known property" });
});

test("the errors of a query list at most 20 unknown parameters, and are at most 2.5 times as long as the query", async () => {
  const names = Array.from({ length: 5_000 }, (_, n) => n.toString(36));
  const short = await requestErrors(`/v1/forms?${names.join("&").slice(0, 15_000)}`);
  expect(short.errors).toHaveLength(20);
  expect(short.text.length).toBeLessThan(2_000);
  const long = await requestErrors(`/v1/listings?${"%00".repeat(5_000)}=1`);
  expect(long.errors).toHaveLength(1);
  expect(long.text.length).toBeLessThan(2.5 * 15_000);
});
