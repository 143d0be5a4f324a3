import { expect, test } from "vitest";
import type { FormBody } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import { catchRejectedFields } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { fixedStay } from "../support/stays.js";

/** Values that a coercing schema would accept, with the field that must be rejected. */
const COERCIBLE_VALUES: [field: string, value: unknown][] = [
  ...["3", true, null, "2.0", ["3"]].map((value): [string, unknown] => ["numberOfGuests", value]),
  ...[1_814_367_600_000, null, true, "2027-07-01"].map((value): [string, unknown] => ["checkInDate", value]),
  ...[7, true].map((value): [string, unknown] => ["guestEmail", value]),
];

// trpc-to-openapi changes schemas in place.
test("values are never coerced, neither in direct calls before and after REST requests nor in bodies of REST requests", async () => {
  const { services, owner, makeKey, asKey } = await openTestCore();
  const stay = fixedStay(owner.listingId);
  const key = await makeKey(owner.userId);
  const gateway = await startTestGateway({ DATABASE_URL: services.db.url });
  const caller = asKey(key);
  const post = (body: unknown) => gateway.request({ method: "POST", path: "/v1/forms", key: key.key, body });
  const list = async (limit: string) =>
    (await gateway.request({ path: `/v1/forms?limit=${limit}`, key: key.key })).status;

  for (const kind of ["direct", "REST", "direct"]) {
    for (const [field, value] of COERCIBLE_VALUES) {
      const body = { ...stay, [field]: value } as FormBody;
      if (kind === "direct") expect(await catchRejectedFields(caller.forms.create(body))).toEqual([field]);
      else expect(await post(body)).toMatchObject({ status: 400, json: { errors: [{ field }] } });
    }
    if (kind === "REST") {
      expect([(await post(stay)).status, await list("5"), await list("true")]).toEqual([201, 200, 400]);
    } else {
      for (const limit of ["5", true, null, new Date(5), "", 2.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        const input = { limit: limit as unknown as number };
        expect(await catchRejectedFields(caller.forms.list(input))).toEqual(["limit"]);
        expect(await catchRejectedFields(caller.listings.list(input))).toEqual(["limit"]);
      }
    }
  }
});
