import { afterAll, beforeEach, expect, test, vi } from "vitest";
import type { FormBody } from "../../server/forms/schema.js";

/** Values that a coercing schema would accept, with the field that must be rejected. */
const COERCIBLE_VALUES: [field: string, value: unknown][] = [
  ...["3", true, null, "2.0", ["3"]].map((value): [string, unknown] => ["numberOfGuests", value]),
  ...[1_814_367_600_000, null, true, "2027-07-01"].map((value): [string, unknown] => ["checkInDate", value]),
  ...[7, true].map((value): [string, unknown] => ["guestEmail", value]),
];

// trpc-to-openapi changes schemas in place, so each order has its own modules, which no other test has used.
beforeEach(() => void vi.resetModules());
afterAll(() => void vi.resetModules());

test.each([
  ["direct calls run first, then REST, then direct calls again", ["direct", "REST", "direct"]],
  ["REST runs first, then direct calls, then REST again", ["REST", "direct", "REST"]],
])("values are never coerced if %s", async (_, order) => {
  const { asKey, catchRejectedFields, makeKey } = await import("../support/factories.js");
  const { openTestCore } = await import("../support/core.js");
  const { startTestGateway } = await import("../support/gateway.js");
  const { fixedStay } = await import("../support/stays.js");
  const { services, owner } = await openTestCore();
  const stay = fixedStay(owner.listingId);
  const key = await makeKey(services, owner.userId);

  const gateway = await startTestGateway({ DATABASE_URL: services.db.url });
  const caller = asKey(services, key);
  const post = (body: unknown) => gateway.request({ method: "POST", path: "/v1/forms", key: key.key, body });
  const list = async (limit: string) =>
    (await gateway.request({ path: `/v1/forms?limit=${limit}`, key: key.key })).status;

  for (const kind of order) {
    for (const [field, value] of COERCIBLE_VALUES) {
      const body = { ...stay, [field]: value } as FormBody;
      if (kind === "direct") expect(await catchRejectedFields(caller.forms.create(body))).toEqual([field]);
      else expect(await post(body)).toMatchObject({ status: 400, json: { errors: [{ field }] } });
    }
    if (kind === "REST") {
      expect([(await post(stay)).status, await list("5"), await list("true")]).toEqual([201, 200, 400]);
    } else {
      for (const limit of ["5", true, null, new Date(5)]) {
        const input = { limit: limit as unknown as number };
        expect(await catchRejectedFields(caller.forms.list(input))).toEqual(["limit"]);
        expect(await catchRejectedFields(caller.listings.list(input))).toEqual(["limit"]);
      }
    }
  }
});
