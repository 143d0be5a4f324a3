import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { createApp } from "../../gateway/app.js";
import { openReadiness } from "../../gateway/http/readiness.js";
import type { Services } from "../../server/context.js";
import type { FormBody } from "../../server/forms/schema.js";
import { asKey, catchRejectedFields, makeKey, openTestServices, type TestKey } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";

export interface CoercionFixture {
  services: Services;
  key: TestKey;
  listingId: string;
}

export async function makeCoercionFixture(): Promise<CoercionFixture> {
  const services = await openTestServices();
  const { userId, listingId } = await makeListingOwner(services);
  return { services, listingId, key: await makeKey(services, userId) };
}

/** Values that a coercing schema would accept, with the field that must be rejected. */
const COERCIBLE_VALUES: [field: string, value: unknown][] = [
  ...["3", true, null, "2.0", ["3"]].map((value): [string, unknown] => ["numberOfGuests", value]),
  ...[1_814_367_600_000, null, true, "2027-07-01"].map((value): [string, unknown] => ["checkInDate", value]),
  ...[7, true].map((value): [string, unknown] => ["guestEmail", value]),
];

export async function expectDirectCallsRejected({
  services,
  key,
  listingId,
}: CoercionFixture): Promise<void> {
  const caller = asKey(services, key);
  for (const [field, value] of COERCIBLE_VALUES) {
    const body = { ...fixedStay(listingId), [field]: value } as FormBody;
    expect(await catchRejectedFields(caller.forms.create(body))).toEqual([field]);
  }
  for (const limit of ["5", true, null, new Date(5)]) {
    const input = { limit: limit as unknown as number };
    expect(await catchRejectedFields(caller.forms.list(input))).toEqual(["limit"]);
    expect(await catchRejectedFields(caller.listings.list(input))).toEqual(["limit"]);
  }
}

/** Sends the same values over HTTP, to a new gateway. */
export async function expectRestCallsRejected({ services, key, listingId }: CoercionFixture): Promise<void> {
  const readiness = openReadiness(services.settings, 1_000);
  onTestFinished(() => readiness.close());
  const server = createServer(createApp({ services, readiness, log: pino({ level: "silent" }) }));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/forms`;
  const headers = { authorization: `Bearer ${key.key}`, "content-type": "application/json" };
  const post = (body: unknown) => fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  for (const [field, value] of COERCIBLE_VALUES) {
    const response = await post({ ...fixedStay(listingId), [field]: value });
    expect(response.status).toBe(400);
    const { errors } = (await response.json()) as { errors: { field: string }[] };
    expect(errors.map((error) => error.field)).toEqual([field]);
  }
  expect((await post(fixedStay(listingId))).status).toBe(201);
  expect((await fetch(`${url}?limit=5`, { headers })).status).toBe(200);
  expect((await fetch(`${url}?limit=true`, { headers })).status).toBe(400);
}
