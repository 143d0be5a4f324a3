import { describe, expect, test } from "vitest";
import { openRotation } from "./rotation-core.js";

const { owner, rotated, stay, create, update, reencrypt, statusOn, sql } = await openRotation();

/** Expects a replay by a process with only the new secret, with a key that was never used before too. */
async function expectUnchanged({ body, form }: Awaited<ReturnType<typeof create>>, key: string) {
  for (const each of [undefined, `key of ${body.numberOfGuests}`, key])
    expect(await owner.create(body, each, rotated)).toEqual({ form, replayed: true });
}

describe("a rotation renews the fingerprints", () => {
  test("of creates and forms with an external id, also one that an update has added", async () => {
    const own = await create({ ...stay(), externalId: "own" });
    const added = await create();
    await update(added, { ...added.body, externalId: "added" });
    // Its address is erased, and an id is added then.
    const erased = await create(stay("erased@example.com"));
    await sql("UPDATE forms SET guest_email = NULL WHERE id = $1", erased.form.id);
    await update(erased, { ...erased.body, guestEmail: undefined, externalId: "late" });
    const changed = await create({ ...stay(), externalId: "before" });
    await update(changed, { ...changed.body, externalId: "after" });

    expect((await owner.create(erased.body, "new before")).replayed).toBe(true);
    await reencrypt();
    await expectUnchanged(own, "new 1");
    await expectUnchanged(added, "new 2");
    expect((await owner.create(changed.body, undefined, rotated)).replayed).toBe(true);
    expect((await owner.create(changed.body, "new 3", rotated)).replayed).toBe(false);
  });
});

test("the create of a cancelled form needs the old secret until check-out: its address is gone", async () => {
  const { body, form } = await create();
  await owner.forms.update({ id: form.id, ...body, cancelled: true });
  await reencrypt();
  const [, old] = (await statusOn()).secrets;
  expect(old).toMatchObject({ addresses: 0, creates: 1, until: form.checkOutDate });
});
