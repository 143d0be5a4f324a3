import { describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { uniqueStay } from "../support/stays.js";

const { owner, operator, sql, asUser, makeUser, setRole, holdLock, waitForBlocked } = await openTestCore();
const { listingId, forms } = owner;

async function create(fields: Record<string, unknown> = {}) {
  const stay = uniqueStay(listingId, fields);
  const form = await forms.create(stay);
  const update = (change: object = {}) => forms.update({ id: form.id, ...stay, ...change });
  return { form, stay, update };
}

describe("updatedAt", () => {
  test("is createdAt until the first change, also in replays", async () => {
    const { form, stay, update } = await create();
    expect(form.updatedAt).toBe(form.createdAt);
    await update({ numberOfGuests: 3 });
    expect(await forms.create(stay)).toEqual(form);
  });

  test("moves with every change of a public field", async () => {
    const { form, update } = await create({ guestEmail: "a@example.com" });
    const user = asUser(owner.userId);
    const changes = [
      () => update({ numberOfGuests: 3 }),
      () => update({ externalId: "b" }),
      async () => update({ listingId: (await owner.addListing()).id }),
      () => user.forms.setParty({ id: form.id, numberOfPets: 1 }),
      () => user.forms.setStatus({ id: form.id, status: "COMPLETED" }),
      () => operator.forms.setStatus({ id: form.id, status: "CANCELLED" }),
    ];
    let last = form;
    for (const change of changes) {
      // Times have milliseconds.
      await sql("SELECT pg_sleep(0.002)");
      const next = await change();
      expect(Date.parse(next.updatedAt)).toBeGreaterThan(Date.parse(last.updatedAt));
      expect(await forms.get({ id: form.id })).toEqual(next);
      last = next;
    }
  });

  test("is left by what is not public: the address, an erasure, memberships, the listing", async () => {
    const { form, update } = await create({ guestEmail: "b@example.com" });
    await update({ guestEmail: "c@example.com" });
    await operator.people.erase({ email: "c@example.com" });
    await operator.listings.update({ id: listingId, title: "Other" });
    await setRole(listingId, (await makeUser()).id, "OWNER");
    expect((await forms.get({ id: form.id })).updatedAt).toBe(form.createdAt);
  });

  test("does not go back with the clock", async () => {
    const { form, update } = await create();
    await sql("UPDATE forms SET updated_at = now() + interval '1 hour' WHERE id = $1", form.id);
    const before = await forms.get({ id: form.id });
    expect((await update({ numberOfGuests: 4 })).updatedAt).toBe(before.updatedAt);
  });

  test("is the time after the wait for the form's lock, so that the later of two changes does not have an earlier one", async () => {
    const { form, update } = await create();
    // It does not set updated_at, so that only the time of the update itself is compared.
    const lock = await holdLock("SELECT FROM forms WHERE id = $1 FOR UPDATE", [form.id]);
    const updated = update({ numberOfGuests: 5 });
    await waitForBlocked(1);
    await sql("SELECT pg_sleep(0.05)");
    const [held] = await sql("SELECT clock_timestamp() AS at");
    await lock.commit();
    expect(Date.parse((await updated).updatedAt)).toBeGreaterThanOrEqual(held.at.getTime());
  });
});

describe("a change that changes nothing", () => {
  test("writes nothing, is no event and leaves the row as it is", async () => {
    const { form, update } = await create({ guestEmail: "d@example.com", externalId: "x" });
    const readRow = () => sql("SELECT xmin::text, * FROM forms WHERE id = $1", form.id);
    const before = await readRow();
    const same = [
      () => update(),
      () => update({ guestEmail: undefined, externalId: undefined }),
      () => update({ guestEmail: "d@EXAMPLE.com" }),
      () => operator.forms.setStatus({ id: form.id, status: "SENT" }),
      () => operator.forms.setParty({ id: form.id, numberOfPets: null }),
    ];
    for (const change of same) expect(await change()).toEqual(form);
    // The locks of the transactions are in xmax.
    expect(await readRow()).toEqual(before);
    const trail = await operator.audit.trail({ subjectId: form.id, limit: 100 });
    expect(trail.map(({ action }) => action)).toEqual(["form.created"]);
  });

  test("is still refused if the stay breaks a rule of the listing", async () => {
    const { id } = await owner.addListing({ maxPeopleInListing: 4 });
    const stay = uniqueStay(id, { numberOfGuests: 4 });
    const form = await forms.create(stay);
    await operator.listings.update({ id, maxPeopleInListing: 3 });
    await expect(forms.update({ id: form.id, ...stay })).rejects.toMatchObject({ serviceCode: "VALIDATION_ERROR" });
  });
});
