import { expect, test } from "vitest";
import { createTestDatabase, LONG_DATABASE_TIMEOUTS } from "../support/database.js";
import { asUser, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { commandsWith } from "../support/run-in-process.js";
import { fixedStay } from "../support/stays.js";

const OLD = "old-secret-of-at-least-32-characters";
const NEW = "new-secret-of-at-least-32-characters";

test("secrets status and reencrypt: a rotation is finished without a lost replay, and no secret is printed", async () => {
  const { url } = await createTestDatabase();
  const envWith = (APP_SECRETS: string) => ({ DATABASE_URL: url, APP_SECRETS, ...LONG_DATABASE_TIMEOUTS });
  const run = async (secrets: string, ...args: string[]) => {
    const printed = await commandsWith(envWith(secrets)).text(...args);
    expect(printed).not.toMatch(new RegExp(`${OLD}|${NEW}`));
    return printed;
  };
  const old = await openTestServices(envWith(OLD));
  const { id: userId } = await makeUser(old);
  const { id: listingId } = await makeListing(old, userId);
  const body = fixedStay(listingId, { guestEmail: "guest@example.com" });
  const changed = { ...body, numberOfGuests: 3 };
  const { forms } = asUser(old, userId);
  const created = await forms.create(body);
  const toChange = await forms.create(changed);
  await forms.update({ id: toChange.id, ...changed, guestEmail: "other@example.com" });
  const until = toChange.checkOutDate;
  const [id] = old.keyring.ids;

  await run(`${OLD},${NEW}`, "secrets", "status");
  expect(JSON.parse(await run(`${NEW},${OLD}`, "secrets", "status", "--json"))).toMatchObject({
    secrets: [
      { position: 1, addresses: 0, creates: 0, until: null },
      { id, position: 2, addresses: 2, creates: 2, until },
    ],
    unreadable: 0,
    unreadableWebhooks: 0,
  });
  expect(await run(NEW, "secrets", "status")).toContain("2 addresses need a secret that APP_SECRETS lacks");

  const printed = await run(`${NEW},${OLD}`, "secrets", "reencrypt");
  expect(printed).toMatch(
    /^Renewed addresses: 2, creates: 1, webhooks: 0\.\n\nSECRET +POSITION +ADDRESSES +WEBHOOKS +CREATES +UNTIL\n/,
  );
  expect(printed).toContain(`\nSecret ${id} is needed until ${until}: these creates cannot be renewed.`);
  expect(await commandsWith(envWith(`${OLD},${NEW}`)).failure("secrets", "reencrypt")).toEqual([
    2,
    "APP_SECRETS: must have the secret first that other processes have first",
  ]);
  expect(JSON.parse(await run(`${NEW},${OLD}`, "secrets", "reencrypt", "--json"))).toMatchObject({
    renewed: { addresses: 0, creates: 0 },
    secrets: [
      { addresses: 2, creates: 1 },
      { addresses: 0, creates: 1, until },
    ],
  });

  const last = asUser(await openTestServices(envWith(NEW)), userId);
  expect(await last.forms.create(body)).toEqual(created);
  const erased = await run(NEW, "people", "erase", "guest@example.com", "--yes", "--json");
  expect(JSON.parse(erased)).toMatchObject({ forms: 1, unreadable: 0 });
});
