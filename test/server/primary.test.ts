import { expect, test, vi } from "vitest";
import { checkPrimary } from "../../server/database/primary.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import { asUser, makeForm, makeKey, makeListing, makeUser, openTestServices } from "../support/factories.js";

test("behind a pooler, every statement that reads for an operation under /v1, for its key or for creates in flight fails on a standby", async () => {
  const services = await openTestServices();
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId);
  const { id } = await makeForm(services, userId, listingId);
  const { key } = await makeKey(services, userId);
  const query = vi.spyOn(services.db, "query");
  const { forms, listings } = asUser(services, userId);
  await keyAuthenticator(services)(key);
  await forms.list({});
  await forms.list({ listingId });
  await forms.get({ id });
  await listings.list({});
  await listings.get({ id: listingId });
  await services.inFlightCreates.wait(new AbortController().signal);
  const texts = new Map(query.mock.calls.map(([name, text]) => [name, text]));
  expect([...texts.keys()].toSorted()).toEqual([
    "form",
    "forms",
    "forms-on-listing",
    "in-flight-creates",
    "key",
    "listing",
    "listings",
  ]);
  for (const [name, text] of texts)
    expect([name, checkPrimary(text)]).toEqual([name, expect.stringContaining("pg_current_wal_lsn")]);
});
