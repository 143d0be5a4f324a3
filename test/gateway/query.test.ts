import { expect, test } from "vitest";
import type { FieldError } from "../../server/errors.js";
import { startTestGateway } from "../gateway-harness.js";

const gateway = await startTestGateway();
const { key } = await gateway.addKeyHolder();

const faultsAt = async (path: string) => {
  const { json, text } = await gateway.request({ path, key });
  return { faults: (json as { errors: FieldError[] }).errors, text };
};

test("a fault of the query speaks of parameters, and a fault of a body of properties", async () => {
  const parameter = "is not a known parameter";
  const { faults } = await faultsAt("/v1/forms?offset=1&__proto__=1&limit=1&limit=2");
  expect(faults).toEqual([
    { field: "limit", issue: "must be sent once" },
    { field: "offset", issue: parameter },
    { field: "__proto__", issue: parameter },
  ]);
  const answer = await gateway.request({ method: "POST", path: "/v1/forms", key, body: { offset: 1 } });
  const { errors } = answer.json as { errors: FieldError[] };
  expect(errors).toContainEqual({ field: "offset", issue: "is not a known property" });
});

test("what an answer says about a query is no longer than a few times what was asked", async () => {
  const names = Array.from({ length: 5_000 }, (_, n) => n.toString(36));
  const short = await faultsAt(`/v1/forms?${names.join("&").slice(0, 15_000)}`);
  expect(short.faults).toHaveLength(20);
  expect(short.text.length).toBeLessThan(2_000);
  const long = await faultsAt(`/v1/listings?${"%00".repeat(5_000)}=1`);
  expect(long.faults).toHaveLength(1);
  expect(long.text.length).toBeLessThan(2.5 * 15_000);
});
