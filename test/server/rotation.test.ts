import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { secretsCheck } from "../../gateway/doctor/secrets.js";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { registerMigratedSecrets } from "../../server/secret-checks.js";
import { seal } from "../../server/secrets.js";
import { createTestDatabase } from "../support/database.js";
import { asOperator, asUser, openTestServices } from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { runSql } from "../support/run-sql.js";
import { fixedStay } from "../support/stays.js";

const [OLD, NEW] = ["old", "new"].map((name) => `${name}-secret-of-at-least-32-characters`) as [
  string,
  string,
];
const ADDRESS = "guest@example.com";

/** Processes on one database, after each step of a rotation. */
let services: Services;
let rotating: Services;
let rotated: Services;
let owner: ListingOwner;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  await runSql(url, "DELETE FROM stored_secrets");
  const env = { DATABASE_URL: url };
  services = await openTestServices({ ...env, APP_SECRETS: OLD });
  await openTestServices({ ...env, APP_SECRETS: `${OLD},${NEW}` });
  rotating = await openTestServices({ ...env, APP_SECRETS: `${NEW},${OLD}` });
  rotated = await openTestServices({ ...env, APP_SECRETS: NEW });
  owner = await makeListingOwner(services);
});

beforeEach(async () => {
  await services.db.pool.query("TRUNCATE forms, erasures CASCADE");
  await services.db.pool.query("UPDATE secret_checks SET needed_until = NULL");
});

let guests = 0;
const stay = (guestEmail: string | null = ADDRESS): FormBody =>
  fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++guests });

interface Create {
  body: FormBody;
  form: FormV1;
}

async function create(body = stay(), on = services): Promise<Create> {
  return { body, form: (await owner.create(body, `key of ${body.numberOfGuests}`, on)).form };
}

const update = ({ form: { id } }: Create, body: FormBody) => owner.forms.update({ id, ...body });

/** Runs `reencrypt` to the end. Returns its counts. */
async function reencrypt(on = rotating) {
  const { secrets } = asOperator(on);
  const counts = { addresses: 0, creates: 0 };
  for (let after: string | null | undefined; after !== null; ) {
    const batch: Awaited<ReturnType<Caller["secrets"]["reencrypt"]>> = await secrets.reencrypt({ after });
    counts.addresses += batch.addresses;
    counts.creates += batch.creates;
    after = batch.next;
  }
  return counts;
}

/** Expects that a process with only the new secret replays these creates, with their key and without one. */
async function expectReplays(creates: Create[]): Promise<void> {
  for (const { body, form } of creates) {
    for (const key of [`key of ${body.numberOfGuests}`, undefined]) {
      expect(await owner.create(body, key, rotated)).toEqual({ form, replayed: true });
    }
  }
}

const readable = async (on: Services) =>
  (await on.db.pool.query("SELECT FROM forms WHERE guest_email IS NOT NULL")).rows.length -
  (await asOperator(on).secrets.status({})).unreadable;

const needsOf = async (position: number, on = rotating) =>
  (await asOperator(on).secrets.status({})).secrets.find((use) => use.position === position);

describe("secrets.reencrypt", () => {
  test("renews every address, and every create whose address is known: without the old secret none is unreadable, and no replay is lost", async () => {
    const [plain, bare, moved, changedBack] = [
      await create(),
      await create(stay(null)),
      await create(),
      await create(),
    ];
    await update(moved, { ...moved.body, checkOutDate: "2056-01-01T10:00:00Z", guestEmail: undefined });
    await update(changedBack, stay("other@example.com"));
    await update(changedBack, changedBack.body);
    // A row of a version that did not store the secret.
    await services.db.pool.query("UPDATE creations SET secret_id = NULL WHERE form_id = $1", [plain.form.id]);
    const later = await create(stay(), rotating);

    expect(await reencrypt()).toEqual({ addresses: 3, creates: 4 });
    expect(await needsOf(2)).toMatchObject({ addresses: 0, creates: 0, until: null });
    expect(await readable(rotated)).toBe(4);
    await expectReplays([plain, bare, moved, changedBack, later]);
    for (const { body, form } of [plain, bare]) {
      expect(await owner.create(body, "a new key", rotated), "as unchanged").toEqual({
        form,
        replayed: true,
      });
      await services.db.pool.query("DELETE FROM idempotency_keys WHERE key = 'a new key'");
    }
    const { replayed } = await owner.create(moved.body, "a new key for the moved one", rotated);
    expect(replayed, "as updated").toBe(false);
    expect(await asOperator(rotated).people.erase({ email: ADDRESS })).toMatchObject({
      forms: 5,
      unreadable: 0,
    });
  });

  test("leaves creates whose address was changed or erased, which are counted until their stay ends, and replayed with the old secret", async () => {
    const [changed, erased, over] = [
      await create(),
      await create(stay("erased@example.com")),
      await create(),
    ];
    await update(changed, { ...changed.body, guestEmail: "other@example.com" });
    await update(over, { ...over.body, guestEmail: "other@example.com" });
    await asOperator(services).people.erase({ email: "erased@example.com" });
    await services.db.pool.query(
      "UPDATE forms SET check_in_date = '2020-01-01', check_out_date = '2020-01-02' WHERE id = $1",
      [over.form.id],
    );
    await services.db.pool.query(
      `UPDATE creations SET answer = jsonb_set(answer, '{checkOutDate}', '"2020-01-02T00:00:00.000Z"') WHERE form_id = $1`,
      [over.form.id],
    );
    await services.db.pool.query("UPDATE forms SET check_out_date = '2056-01-01' WHERE id = $1", [
      changed.form.id,
    ]);
    expect(await reencrypt()).toEqual({ addresses: 2, creates: 0 });
    expect(await needsOf(2)).toMatchObject({ addresses: 0, creates: 2, until: "2056-01-01T00:00:00.000Z" });
    for (const { body, form } of [changed, erased]) {
      expect(await owner.create(body, undefined, rotating)).toEqual({ form, replayed: true });
    }
    expect(await readable(rotated)).toBe(2);
  });

  test("completes what a killed run left, and changes nothing when it is run again", async () => {
    const creates: Create[] = [];
    for (let n = 0; n < 250; n++) creates.push(await create());
    const first = await asOperator(rotating).secrets.reencrypt({});
    expect(first).toMatchObject({ addresses: 100, creates: 100, next: expect.any(String) });
    expect(await reencrypt()).toEqual({ addresses: 150, creates: 150 });
    const read = async () =>
      (await services.db.pool.query("SELECT forms.xmin::text, * FROM forms JOIN creations ON form_id = id"))
        .rows;
    const before = await read();
    expect(await reencrypt()).toEqual({ addresses: 0, creates: 0 });
    expect(await read()).toEqual(before);
    await expectReplays(creates.slice(0, 20));
    expect(await readable(rotated)).toBe(250);
  });

  test("is safe while forms are created, replayed, updated and erased, and while it runs twice", async () => {
    const creates: Create[] = [];
    for (let n = 0; n < 60; n++)
      creates.push(await create(stay(n % 3 === 0 ? "erased@example.com" : ADDRESS)));
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
    expect((await asOperator(rotated).secrets.status({})).unreadable).toBe(0);
    const { rows } = await services.db.pool.query(
      "SELECT holder_id, fingerprint FROM creations GROUP BY 1, 2 HAVING count(*) > 1",
    );
    expect(rows).toEqual([]);
  });

  test("keeps what changed after it has read it: an erased address stays erased, and a new address is not replaced", async () => {
    const [erased, changed] = [await create(), await create()];
    const lock = await holdLock(services, "SELECT FROM forms FOR UPDATE");
    const renewing = reencrypt();
    await waitForBlocked(services, 1);
    await lock.client.query("UPDATE forms SET guest_email = NULL WHERE id = $1", [erased.form.id]);
    const address = seal(rotated.keyring.email, "other@example.com", changed.form.id);
    await lock.client.query("UPDATE forms SET guest_email = $2 WHERE id = $1", [changed.form.id, address]);
    await lock.commit();
    expect(await renewing).toEqual({ addresses: 0, creates: 0 });
    const { rows } = await services.db.pool.query("SELECT id, guest_email FROM forms ORDER BY guest_email");
    expect(rows).toEqual([
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

describe("secrets.status", () => {
  test("counts what needs each secret, also one that is not listed, and never prints one", async () => {
    const [first, second] = [await create(), await create()];
    await create(stay(), rotating);
    const until = first.form.checkOutDate;
    const [oldId, newId] = [services.keyring.ids[0], rotated.keyring.ids[0]];
    const status = await asOperator(rotating).secrets.status({});
    expect(status).toEqual({
      secrets: [
        { id: newId, position: 1, addresses: 1, creates: 1, until },
        { id: oldId, position: 2, addresses: 2, creates: 2, until },
      ],
      unreadable: 0,
    });
    await services.db.pool.query("UPDATE creations SET secret_id = NULL WHERE form_id = $1", [
      second.form.id,
    ]);
    expect(await asOperator(rotated).secrets.status({})).toEqual({
      secrets: [
        { id: newId, position: 1, addresses: 1, creates: 1, until },
        { id: oldId, position: null, addresses: 0, creates: 1, until },
        { id: null, position: null, addresses: 0, creates: 1, until },
      ],
      unreadable: 2,
    });
    for (const secret of [OLD, NEW]) {
      expect(secret).not.toContain(oldId);
      expect(JSON.stringify(status)).not.toContain(secret);
    }
  });

  test("counts a create until its own stay ends, also if an update has moved the form to an earlier one", async () => {
    const created = await create();
    await update(created, {
      ...created.body,
      guestEmail: "other@example.com",
      checkInDate: "2020-01-01T15:00:00Z",
      checkOutDate: "2020-01-02T11:00:00Z",
    });
    await reencrypt();
    const { secrets } = await asOperator(rotating).secrets.status({});
    expect(secrets[1]).toMatchObject({ addresses: 0, creates: 1, until: created.form.checkOutDate });
  });
});

describe("doctor", () => {
  const doctor = () => {
    const { settings } = rotated;
    return secretsCheck.run({ settings, env: {}, processes: 1, worker: true }, rotated.db);
  };

  test("warns if the old secret was removed before what needs it was counted, or while addresses need it", async () => {
    await create();
    const warning = expect.objectContaining({
      status: "warning",
      message: `APP_SECRETS lacks the secret ${services.keyring.ids[0]}, which may still be needed: run \`guest-forms secrets reencrypt\`, with it listed behind the newest one if you still have it.`,
    });
    expect(await doctor()).toEqual(warning);
    await asOperator(rotating).secrets.status({});
    expect(await doctor()).toEqual(warning);
    await asOperator(rotated).secrets.status({});
    expect(await doctor()).toEqual(warning);
    await reencrypt();
    await asOperator(rotating).secrets.status({});
    expect(await doctor()).toMatchObject({ status: "ok" });
  });

  test("warns until the end of the last stay whose create needs it", async () => {
    const changed = await create();
    await update(changed, { ...changed.body, guestEmail: "other@example.com" });
    await reencrypt();
    await asOperator(rotating).secrets.status({});
    expect(await doctor()).toEqual({
      status: "warning",
      message: `APP_SECRETS lacks the secret ${services.keyring.ids[0]}, which is needed until ${changed.form.checkOutDate}: list it behind the newest one until then.`,
    });
    await services.db.pool.query("UPDATE secret_checks SET needed_until = now() - interval '1 second'");
    expect(await doctor()).toMatchObject({ status: "ok" });
  });

  test("says nothing about a secret that was given up with --accept-new-secret", async () => {
    await create();
    await registerMigratedSecrets(rotated.db.pool, [NEW], { acceptNewest: true });
    expect(await doctor()).toMatchObject({ status: "ok" });
  });
});
