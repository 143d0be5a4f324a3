import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { canonicalBody, fingerprints } from "../../server/forms/idempotency.js";
import {
  asOperator,
  catchErrorCode,
  catchServiceError,
  openTestServices,
  setRole,
  TEST_SECRET,
  withSecrets,
} from "../support/factories.js";
import { type ListingOwner, makeListingOwner, ONE_FORM } from "../support/listing-owner.js";
import { holdLock, LOCK_USERS, waitForBlocked } from "../support/locks.js";

const OLD_SECRET = "an-older-secret-for-tests-of-more-than-32-characters";

/** Ids of the advisory locks on bodies and Idempotency-Keys that these backends hold or wait for. */
async function readLockIds({ db }: Services, pids: number[], granted: boolean): Promise<string[]> {
  const { rows } = await db.pool.query<{ id: string }>(
    `SELECT DISTINCT ((classid::bigint << 32) | objid::bigint)::text AS id FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1 AND pid = ANY($1) AND granted = $2`,
    [pids, granted],
  );
  return rows.map(({ id }) => id);
}

// In the second step of a rotation, processes disagree on the newest secret: they store other fingerprints for equal bodies,
// and only their locks keep one from creating a form beside the other's.
describe.each([
  ["one secret", [TEST_SECRET], [TEST_SECRET]],
  [
    "two secrets in different orders, as during a rotation",
    [TEST_SECRET, OLD_SECRET],
    [OLD_SECRET, TEST_SECRET],
  ],
])("with %s", (_, secrets, secondSecrets) => {
  /** Two processes on one database. */
  let services: Services;
  let second: Services;

  beforeAll(async () => {
    services = withSecrets(await openTestServices(), ...secrets);
    second = withSecrets(await openTestServices({ DATABASE_URL: services.db.url }), ...secondSecrets);
  });

  const times = <Result>(count: number, make: (index: number) => Result) =>
    Array.from({ length: count }, (_, index) => make(index));

  describe("concurrent equal creates", () => {
    test("50 equal creates on two processes make one form, notification and audit entry, and get the same response", async () => {
      const owner = await makeListingOwner(services);
      const results = await Promise.all(
        times(50, (index) => owner.create(owner.body, undefined, index % 2 ? second : services)),
      );
      expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(results.map(({ form }) => JSON.stringify(form))).size).toBe(1);
      expect(await owner.countRows()).toEqual(ONE_FORM);
    });

    test("equal creates with one, many or no Idempotency-Key make one form, and 10 of the keys are bound to it", async () => {
      const owner = await makeListingOwner(services);
      const keys = times(45, (index) => [undefined, "one", `key ${index}`][index % 3]);
      const results = await Promise.all(
        keys.map((key, index) => owner.create(owner.body, key, index % 2 ? second : services)),
      );
      expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(results.map(({ form }) => form.id)).size).toBe(1);
      expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 10 });
    });

    test.each<[string, (owner: ListingOwner, id: string) => Promise<unknown>]>([
      ["an update", (owner, id) => owner.forms.update({ id, ...owner.body, numberOfGuests: 9 })],
      ["a rejection", (_, id) => asOperator(services).forms.setStatus({ id, status: "REJECTED" })],
    ])(
      "after %s, 20 concurrent creates with two new Idempotency-Keys make one second form",
      async (_, change) => {
        const owner = await makeListingOwner(services);
        const { form } = await owner.create(owner.body);
        await change(owner, form.id);
        const results = await Promise.all(
          times(20, (index) =>
            owner.create(owner.body, `key ${index % 2}`, index % 4 < 2 ? services : second),
          ),
        );
        expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
        expect(new Set(results.map(({ form: { id } }) => id)).size).toBe(1);
        expect(results[0]?.form.id).not.toBe(form.id);
        expect(await owner.countRows()).toMatchObject({ forms: 2, creations: 2, notifications: 2, keys: 2 });
      },
    );
  });

  describe("concurrent creates with the same Idempotency-Key", () => {
    test("of two different bodies sent 20 times each, one body wins and the other gets IDEMPOTENCY_KEY_REUSED", async () => {
      const owner = await makeListingOwner(services);
      const bodies = [owner.body, { ...owner.body, numberOfGuests: 3 }];
      const outcomes = await Promise.all(
        times(40, async (index) => {
          const body = bodies[index % 2] ?? owner.body;
          const create = owner.create(body, "contested", index % 4 < 2 ? services : second);
          return create.then(
            ({ form, replayed }) => ({ body, id: form.id, replayed }),
            async () => ({ body, code: await catchErrorCode(create) }),
          );
        }),
      );
      const won = outcomes.flatMap((outcome) => ("id" in outcome ? [outcome] : []));
      const lost = outcomes.flatMap((outcome) => ("code" in outcome ? [outcome] : []));
      expect(won).toHaveLength(20);
      expect(new Set(won.map(({ body }) => body)).size).toBe(1);
      expect(new Set(won.map(({ id }) => id)).size).toBe(1);
      expect(won.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(lost.map(({ body }) => body)).size).toBe(1);
      expect(new Set(lost.map(({ code }) => code))).toEqual(new Set(["IDEMPOTENCY_KEY_REUSED"]));
      expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: 1 });
    });

    test("a create with another body waits for the first, and is rejected if the first commits", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(services, LOCK_USERS, [[owner.userId]]);
      const first = owner.create(owner.body, "k");
      await waitForBlocked(services, 1);
      const other = catchErrorCode(owner.create({ ...owner.body, numberOfGuests: 3 }, "k", second));
      await waitForBlocked(services, 2);
      await lock.commit();
      expect((await first).replayed).toBe(false);
      expect(await other).toBe("IDEMPOTENCY_KEY_REUSED");
    });

    test.each([
      ["a create with another body", "k", 3],
      ["an equal create", undefined, 2],
    ])("%s waits for the first, and creates its form if the first fails", async (_, key, numberOfGuests) => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(services, LOCK_USERS, [[owner.userId]]);
      const first = catchServiceError(owner.create(owner.body, key));
      const [pid] = await waitForBlocked(services, 1);
      const other = owner.create({ ...owner.body, numberOfGuests }, key, second);
      await waitForBlocked(services, 2);
      await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
      expect(await first).toMatchObject({
        serviceCode: "INTERNAL_ERROR",
        status: 503,
        retryAfter: expect.any(Number),
      });
      await waitForBlocked(services, 1);
      await lock.commit();
      expect(await other).toMatchObject({ replayed: false, form: { numberOfGuests } });
      expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: key ? 1 : 0 });
      const isEqual = numberOfGuests === owner.body.numberOfGuests;
      expect((await owner.create(owner.body)).replayed, "the failed create bound nothing").toBe(isEqual);
    });

    test("two Idempotency-Keys crossed with two bodies do not deadlock: each create gets a form or IDEMPOTENCY_KEY_REUSED", async () => {
      const owner = await makeListingOwner(services);
      const outcomes = await Promise.all(
        times(32, async (index) => {
          const numberOfGuests = 1 + (index % 2);
          const key = index % 4 < 2 ? "a" : "b";
          const on = index % 8 < 4 ? services : second;
          const create = owner.create({ ...owner.body, numberOfGuests }, key, on);
          return create.then(
            () => "form",
            () => catchErrorCode(create),
          );
        }),
      );
      expect(new Set(outcomes)).toEqual(new Set(["form", "IDEMPOTENCY_KEY_REUSED"]));
      const { forms, keys } = await owner.countRows();
      expect(forms).toBeLessThanOrEqual(2);
      expect(keys).toBe(2);
    });

    test("two key holders with the same Idempotency-Key and body do not wait for each other", async () => {
      const owner = await makeListingOwner(services);
      const other = await makeListingOwner(services);
      await setRole(services, owner.listingId, other.userId, "WRITER");
      const lock = await holdLock(services, LOCK_USERS, [[owner.userId, other.userId]]);
      const calls = [owner.create(owner.body, "k"), other.create(owner.body, "k", second)];
      const pids = await waitForBlocked(services, 2);
      expect(await readLockIds(services, pids, false)).toEqual([]);
      await lock.commit();
      const results = await Promise.all(calls);
      expect(results.map(({ replayed }) => replayed)).toEqual([false, false]);
    });
  });
});

describe("the locks of equal creates", () => {
  let services: Services;

  beforeAll(async () => {
    services = await openTestServices();
  });

  test.each([
    ["before and after the new secret is announced", [OLD_SECRET], [OLD_SECRET, TEST_SECRET]],
    ["before and after the new secret is used", [OLD_SECRET, TEST_SECRET], [TEST_SECRET, OLD_SECRET]],
    ["before and after the old secret is removed", [TEST_SECRET, OLD_SECRET], [TEST_SECRET]],
    ["before the new secret is announced and after it is used", [OLD_SECRET], [TEST_SECRET, OLD_SECRET]],
  ])("processes %s in a rotation wait for each other and replay", async (_, firstSecrets, secondSecrets) => {
    const owner = await makeListingOwner(services);
    const lock = await holdLock(services, LOCK_USERS, [[owner.userId]]);
    const first = owner.create(owner.body, undefined, withSecrets(services, ...firstSecrets));
    await waitForBlocked(services, 1);
    const second = owner.create(owner.body, undefined, withSecrets(services, ...secondSecrets));
    const pids = await waitForBlocked(services, 2);
    expect(await readLockIds(services, pids, false)).toHaveLength(1);
    await lock.commit();
    expect(await second).toEqual({ form: (await first).form, replayed: true });
  });

  test("processes with the same secrets in another order take the locks in the same order", async () => {
    const owner = await makeListingOwner(services);
    const both = withSecrets(services, OLD_SECRET, TEST_SECRET);
    const reversed = withSecrets(services, TEST_SECRET, OLD_SECRET);
    const users = await holdLock(services, LOCK_USERS, [[owner.userId]]);
    const first = owner.create(owner.body, undefined, both);
    const ids = await readLockIds(services, await waitForBlocked(services, 1), true);
    expect(ids).toHaveLength(2);
    await users.commit();
    await first;
    const held = await holdLock(services, "SELECT pg_advisory_xact_lock(unnest($1::bigint[]))", [ids]);
    const creates = [both, reversed].map((on) => owner.create(owner.body, undefined, on));
    const waiting = await readLockIds(services, await waitForBlocked(services, 2), false);
    expect(waiting).toHaveLength(1);
    await held.commit();
    expect((await Promise.all(creates)).map(({ replayed }) => replayed)).toEqual([true, true]);
  });

  test("the ids cannot be computed from the body: another secret gives other ids", async () => {
    const owner = await makeListingOwner(services);
    const lock = await holdLock(services, LOCK_USERS, [[owner.userId]]);
    const creates = [TEST_SECRET, OLD_SECRET].map((secret) =>
      owner.create(owner.body, undefined, withSecrets(services, secret)),
    );
    const pids = await waitForBlocked(services, 2);
    expect(await readLockIds(services, pids, true)).toHaveLength(2);
    expect(await readLockIds(services, pids, false)).toEqual([]);
    await lock.commit();
    await Promise.all(creates);
  });

  test("a create overtaken by a process with other lock ids, such as one of another version, is retried and replays", async () => {
    const owner = await makeListingOwner(services);
    const form = await owner.addForm();
    const [fingerprint] = fingerprints(services.keyring.fingerprint, canonicalBody(owner.body));
    const overtaking = await holdLock(
      services,
      "UPDATE creations SET fingerprint = $2, current_fingerprint = $2 WHERE form_id = $1",
      [form.id, fingerprint],
    );
    const create = owner.create(owner.body);
    await waitForBlocked(services, 1);
    await overtaking.commit();
    expect(await create).toEqual({ form, replayed: true });
  });
});
