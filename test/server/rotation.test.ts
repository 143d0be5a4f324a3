import { describe, expect, test } from "vitest";
import { open, seal } from "../../server/encryption.js";
import { asOperator, asUser, catchErrorCode } from "../support/factories.js";
import { ADDRESS, type Create, openRotation } from "./rotation-core.js";

const { services, owner, sql, holdLock, waitForBlocked, rotating, rotated, stay, create, update, reencrypt, statusOn } =
  await openRotation();

/** Expects that a process with only the new secret replays these creates, with their key and without one. */
async function expectReplays(creates: Create[]): Promise<void> {
  for (const { body, form } of creates) {
    for (const key of [`key of ${body.numberOfGuests}`, undefined]) {
      expect(await owner.create(body, key, rotated)).toEqual({ form, replayed: true });
    }
  }
}

const countReadableWithNew = async () =>
  (await sql("SELECT FROM forms WHERE guest_email IS NOT NULL")).length - (await statusOn(rotated)).unreadable;

test("during a rotation earlier creates are replayed, and creates made during the rotation after the old secret is removed", async () => {
  const { body, form } = await create();
  const ownKey = `key of ${body.numberOfGuests}`;
  for (const key of [undefined, ownKey, "new"]) {
    expect(await owner.create(body, key, rotating)).toEqual({ form, replayed: true });
  }
  const other = stay();
  expect(await catchErrorCode(owner.create(other, ownKey, rotating))).toBe("IDEMPOTENCY_KEY_REUSED");
  // An update encrypts and fingerprints with the new secret. The stored create has a fingerprint of the old one.
  const { forms } = asUser(rotating, owner.userId);
  await forms.update({ id: form.id, ...other });
  await forms.update({ id: form.id, ...body });
  expect(await owner.create(body, "newer", rotating)).toEqual({ form, replayed: true });
  await expectReplays([await create(other, rotating)]);
});

describe("secrets.reencrypt", () => {
  test("renews every address, and every create whose address is known: without the old secret none is unreadable, and no replay is lost", async () => {
    const [plain, bare] = [await create(), await create(stay(null))];
    const [moved, changedBack] = [await create(), await create()];
    await update(moved, { ...moved.body, checkOutDate: "2056-01-01T10:00:00Z", guestEmail: undefined });
    await update(changedBack, stay("other@example.com"));
    await update(changedBack, changedBack.body);
    const later = await create(stay(), rotating);

    expect(await reencrypt()).toMatchObject({ addresses: 3, creates: 4 });
    expect((await statusOn()).secrets[1]).toMatchObject({ addresses: 0, creates: 0, until: null });
    expect(await countReadableWithNew()).toBe(4);
    await expectReplays([plain, bare, moved, changedBack, later]);
    expect(await sql("SELECT FROM forms")).toHaveLength(5);
    for (const { body, form } of [plain, bare]) {
      const again = await owner.create(body, "a new key", rotated);
      expect(again, "as unchanged").toEqual({ form, replayed: true });
      await sql("DELETE FROM idempotency_keys WHERE key = 'a new key'");
    }
    const { replayed } = await owner.create(moved.body, "a new key for the moved one", rotated);
    expect(replayed, "as updated").toBe(false);
    const erased = await asOperator(rotated).people.erase({ email: ADDRESS });
    expect(erased).toMatchObject({ forms: 5, unreadable: 0 });
  });

  test("renews creates without an address whose form got one later: a retry makes no second form", async () => {
    const bare = await create(stay(null));
    await update(bare, { ...bare.body, guestEmail: ADDRESS });
    expect(await reencrypt()).toMatchObject({ addresses: 1, creates: 1 });
    expect((await statusOn()).secrets[1]).toMatchObject({ addresses: 0, creates: 0, until: null });
    await expectReplays([bare]);
    expect(await sql("SELECT FROM forms")).toHaveLength(1);
  });

  test("leaves creates whose address was changed or erased, which are counted until their stay ends, and replayed with the old secret", async () => {
    const [changed, erased] = [await create(), await create(stay("erased@example.com"))];
    const [over, shortened] = [await create(), await create()];
    await update(changed, { ...changed.body, guestEmail: "other@example.com" });
    await update(over, { ...over.body, guestEmail: "other@example.com" });
    await update(shortened, { ...shortened.body, guestEmail: "other@example.com" });
    await asOperator(services).people.erase({ email: "erased@example.com" });
    await sql("UPDATE forms SET check_in_date = '2020-01-01', check_out_date = '2020-01-02' WHERE id = ANY($1)", [
      over.form.id,
      shortened.form.id,
    ]);
    await sql(
      `UPDATE creations SET answer = jsonb_set(answer, '{checkOutDate}', '"2020-01-02T00:00:00.000Z"') WHERE form_id = $1`,
      over.form.id,
    );
    await sql("UPDATE forms SET check_out_date = '2056-01-01' WHERE id = $1", changed.form.id);
    expect(await reencrypt()).toMatchObject({ addresses: 3, creates: 0 });
    expect((await statusOn()).secrets[1], "the stay of the create counts, also if the form's is over").toMatchObject({
      addresses: 0,
      creates: 3,
      until: "2056-01-01T00:00:00.000Z",
    });
    for (const { body, form } of [changed, erased, shortened]) {
      expect(await owner.create(body, undefined, rotating)).toEqual({ form, replayed: true });
    }
    expect(await countReadableWithNew()).toBe(3);
  });

  test("completes what a killed run left, and changes nothing when it is run again", async () => {
    const creates: Create[] = [];
    for (let n = 0; n < 250; n++) creates.push(await create());
    const first = await asOperator(rotating).secrets.reencrypt({});
    expect(first).toMatchObject({ addresses: 100, creates: 100, next: expect.any(String) });
    expect(await reencrypt()).toMatchObject({ addresses: 150, creates: 150 });
    const read = () => sql("SELECT forms.xmin::text, * FROM forms JOIN creations ON form_id = id");
    const before = await read();
    expect(await reencrypt()).toMatchObject({ addresses: 0, creates: 0 });
    expect(await read()).toEqual(before);
    await expectReplays(creates.slice(0, 20));
    expect(await countReadableWithNew()).toBe(250);
  });

  test("is safe while forms are created, replayed, updated and erased, and while it runs twice", async () => {
    const creates: Create[] = [];
    for (let n = 0; n < 60; n++) creates.push(await create(stay(n % 3 === 0 ? "erased@example.com" : ADDRESS)));
    const forms = asUser(rotating, owner.userId).forms;
    let isDone = false;
    const traffic = (async () => {
      for (let n = 0; !isDone; n = (n + 1) % creates.length) {
        const { body, form } = creates[n] as Create;
        expect(await owner.create(body, undefined, rotating)).toEqual({ form, replayed: true });
        // The same stay: its fingerprint is that of the create.
        await forms.update({ id: form.id, ...body, guestEmail: undefined });
        await owner.create(stay(), undefined, rotating);
      }
    })();
    const erasing = asOperator(rotating).people.erase({ email: "erased@example.com" });
    await Promise.all([reencrypt(), reencrypt(), erasing]);
    isDone = true;
    await traffic;
    await reencrypt();
    await expectReplays(creates.filter(({ body }) => body.guestEmail === ADDRESS));
    expect((await statusOn(rotated)).unreadable).toBe(0);
    const twice = "SELECT holder_id, fingerprint FROM creations GROUP BY 1, 2 HAVING count(*) > 1";
    expect(await sql(twice)).toEqual([]);
  });

  test("keeps what changed after it has read it: an erased address stays erased, and a new address is not replaced", async () => {
    const [erased, changed] = [await create(), await create()];
    const lock = await holdLock("SELECT FROM forms FOR UPDATE");
    const renewing = reencrypt();
    await waitForBlocked(1);
    await lock.client.query("UPDATE forms SET guest_email = NULL WHERE id = $1", [erased.form.id]);
    const address = seal(rotated.keyring.email, "other@example.com", changed.form.id);
    await lock.client.query("UPDATE forms SET guest_email = $2 WHERE id = $1", [changed.form.id, address]);
    await lock.commit();
    expect(await renewing).toMatchObject({ addresses: 0, creates: 0 });
    expect(await sql("SELECT id, guest_email FROM forms ORDER BY guest_email")).toEqual([
      { id: changed.form.id, guest_email: address },
      { id: erased.form.id, guest_email: null },
    ]);
  });

  test("keeps which of several equal creates replays without a key, and which with its own", async () => {
    const first = await create();
    const { body } = first;
    let newest = first.form;
    for (let n = 0; n < 6; n++) {
      await owner.forms.update({ id: newest.id, ...stay() });
      newest = (await owner.create(body, `newer ${n}`)).form;
    }
    expect(newest.id).not.toBe(first.form.id);
    expect(await reencrypt()).toMatchObject({ creates: 7 });
    expect(await owner.create(body, undefined, rotated)).toEqual({ form: newest, replayed: true });
    expect(await owner.create(body, "newer 5", rotated)).toEqual({ form: newest, replayed: true });
    const ownKey = `key of ${body.numberOfGuests}`;
    expect(await owner.create(body, ownKey, rotated)).toEqual({ form: first.form, replayed: true });
  });

  test("keeps the newer of two equal creates as the one to replay, if the old secret was removed too early", async () => {
    const { body } = await create();
    const again = await owner.create(body, undefined, rotated);
    expect(again.replayed).toBe(false);
    expect(await reencrypt()).toMatchObject({ creates: 1 });
    expect(await owner.create(body, undefined, rotated)).toEqual({ form: again.form, replayed: true });
  });
});

test("secrets.reencrypt renews the secrets of webhook endpoints, also the previous ones, and secrets.status counts them until then", async () => {
  const { webhooks } = asUser(services, owner.userId);
  const url = "https://example.com/hooks";
  const { id } = await webhooks.create({ url });
  await webhooks.rotateSecret({ id });
  await asUser(rotating, owner.userId).webhooks.create({ url });
  const sealed = async () =>
    (await sql("SELECT secret, previous_secrets[1] AS previous FROM webhook_endpoints WHERE id = $1", id))[0];
  const before = await sealed();
  expect((await statusOn()).secrets).toMatchObject([{ webhooks: 1 }, { webhooks: 1 }]);
  expect(await statusOn(rotated)).toMatchObject({ unreadableWebhooks: 1 });
  expect(await reencrypt()).toEqual({ addresses: 0, creates: 0, webhooks: 1 });
  expect((await statusOn()).secrets).toMatchObject([{ webhooks: 2 }, { webhooks: 0 }]);
  expect(await statusOn(rotated)).toMatchObject({ unreadableWebhooks: 0 });
  const after = await sealed();
  for (const column of ["secret", "previous"])
    expect(open(rotated.keyring.webhook, after[column], id)).toBe(open(services.keyring.webhook, before[column], id));
});
