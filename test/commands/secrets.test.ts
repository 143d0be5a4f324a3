import { expect, test } from "vitest";
import { secretsCheck } from "../../gateway/doctor/secrets.js";
import { readSettings } from "../../server/config.js";
import { createTestDatabase, LONG_DATABASE_TIMEOUTS } from "../support/database.js";
import { asUser, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { runInProcess } from "../support/run-in-process.js";
import { runSql } from "../support/run-sql.js";
import { fixedStay } from "../support/stays.js";

const [OLD, NEW] = ["old", "new"].map((name) => `${name}-secret-of-at-least-32-characters`) as [
  string,
  string,
];
const NEVER = new RegExp(`${OLD}|${NEW}`);

test("secrets status and reencrypt: a rotation is finished without a lost replay, and doctor warns if the old secret is removed too early", async () => {
  const { url } = await createTestDatabase();
  await runSql(url, "DELETE FROM stored_secrets");
  const envWith = (APP_SECRETS: string) => ({ DATABASE_URL: url, APP_SECRETS, ...LONG_DATABASE_TIMEOUTS });
  const run = async (secrets: string, ...args: string[]) => {
    const outcome = await runInProcess(args, envWith(secrets));
    expect(outcome).toMatchObject({ code: 0, stdout: expect.not.stringMatching(NEVER) });
    return outcome.stdout;
  };
  const doctorOn = (secrets: string) => {
    const context = { settings: readSettings(envWith(secrets)), env: {}, processes: 1, worker: true };
    return secretsCheck.run(context, old.db);
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
  const [id] = old.keyring.ids;

  await run(`${OLD},${NEW}`, "secrets", "status");
  const before = JSON.parse(await run(`${NEW},${OLD}`, "secrets", "status", "--json"));
  expect(before).toMatchObject({
    secrets: [
      { position: 1, addresses: 0, creates: 0, until: null },
      { id, position: 2, addresses: 2, creates: 2, until: toChange.checkOutDate },
    ],
    unreadable: 0,
  });
  expect(await doctorOn(NEW)).toMatchObject({
    status: "warning",
    message: expect.stringContaining(`APP_SECRETS lacks the secret ${id}, which may still be needed`),
  });
  expect(await run(NEW, "secrets", "status")).toContain("2 addresses need a secret that APP_SECRETS lacks");

  const printed = await run(`${NEW},${OLD}`, "secrets", "reencrypt");
  expect(printed).toMatch(
    /^Renewed addresses: 2, creates: 1\.\n\nSECRET +POSITION +ADDRESSES +CREATES +UNTIL\n/,
  );
  expect(printed).toContain(
    `\nSecret ${id} is needed until ${toChange.checkOutDate}: these creates cannot be renewed.`,
  );
  expect(await doctorOn(NEW)).toMatchObject({
    status: "warning",
    message: expect.stringContaining(`which is needed until ${toChange.checkOutDate}`),
  });
  expect(await doctorOn(`${NEW},${OLD}`)).toMatchObject({ status: "ok" });
  const stale = await runInProcess(["secrets", "reencrypt"], envWith(`${OLD},${NEW}`));
  expect(stale).toEqual({
    code: 2,
    stdout: "",
    message: "APP_SECRETS: must have the secret first that other processes have first",
  });
  await runSql(
    url,
    "UPDATE forms SET check_in_date = '2020-01-01', check_out_date = '2020-01-02' WHERE id = $1",
    [toChange.id],
  );
  await runSql(
    url,
    `UPDATE creations SET answer = jsonb_set(answer, '{checkOutDate}', '"2020-01-02T00:00:00.000Z"') WHERE form_id = $1`,
    [toChange.id],
  );
  const again = JSON.parse(await run(`${NEW},${OLD}`, "secrets", "reencrypt", "--json"));
  expect(again).toMatchObject({
    renewed: { addresses: 0, creates: 0 },
    secrets: [
      { addresses: 2, creates: 1 },
      { addresses: 0, creates: 0, until: null },
    ],
  });

  expect(await doctorOn(NEW)).toMatchObject({ status: "ok" });
  const last = asUser(await openTestServices(envWith(NEW)), userId);
  expect(await last.forms.create(body)).toEqual(created);
  expect(JSON.parse(await run(NEW, "people", "erase", "guest@example.com", "--json"))).toMatchObject({
    forms: 1,
    unreadable: 0,
  });
});
