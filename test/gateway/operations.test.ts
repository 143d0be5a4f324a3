import { expect, test } from "vitest";
import { uniqueStay } from "../support/stays.js";
import { startHolderGateway } from "./holder-gateway.js";

// Sequences of requests. The rules of single requests are in test/contract/catalog, those of the core in test/server.

const { gateway, listingId, create } = await startHolderGateway();

test("an equal create with no Idempotency-Key, the same or another is a replay: 201, the same body and Location, no form and no email", async () => {
  const countRows = async () => [await gateway.countRows("forms"), await gateway.countRows("emails")];
  const body = uniqueStay(listingId, { guestEmail: "Ana@example.com" });
  const first = await create(body, { "Idempotency-Key": "again-1" });
  const before = await countRows();
  const inOtherWords = `{
    "guestEmail": "Ana@EXAMPLE.com", "numberOfGuests": 2.0, "listingId": "${listingId.toUpperCase()}",
    "checkOutDate": "${body.checkOutDate}", "checkInDate": "${body.checkInDate.replace("Z", "000+00:00")}" }`;
  for (const [sent, key] of [[body], [body, "again-1"], [body, "again-2"], [inOtherWords]] as const) {
    const answer = await create(sent, key ? { "Idempotency-Key": key } : {});
    expect([answer.status, answer.text]).toEqual([201, first.text]);
    expect(answer.headers["idempotent-replayed"]).toBe("true");
    expect(answer.headers.location).toBe(first.headers.location);
  }
  expect(await countRows()).toEqual(before);
});
