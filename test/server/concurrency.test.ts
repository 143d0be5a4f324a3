import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { canonicalBody, fingerprints } from "../../server/forms/idempotency.js";
import { createInput, type FormV1 } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import {
  asUser,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  TEST_SECRET,
  withSecrets,
} from "../support/factories.js";
import { makeListingOwner, NO_ROWS, ONE_FORM } from "../support/listing-owner.js";
import { LOCK_USERS } from "../support/locks.js";
import { fixedStay } from "../support/stays.js";

/** Two processes on one database. */
// As many as the writes of one owner that wait for a lock at the same time.
const core = await openTestCore({ DATABASE_CONNECTIONS_PER_HOLDER: "4" });
const second = await core.openProcess();
const { services, operator, sql, makeOwner, setRole, holdLock, waitForBlocked, runBehind } = core;

const DELETE_MEMBER = "DELETE FROM memberships WHERE user_id = $1 AND listing_id = $2";
const DEMOTE_MEMBER = "UPDATE memberships SET role = 'READER' WHERE user_id = $1 AND listing_id = $2";

const times = <Result>(count: number, make: (index: number) => Result) =>
  Array.from({ length: count }, (_, index) => make(index));

describe("a membership that ends while a write waits", () => {
  const ENDS = [
    ["membership removed", DELETE_MEMBER],
    ["role changed to reader", DEMOTE_MEMBER],
  ] as const;

  test.each(ENDS)("%s: a waiting create gets RESOURCE_NOT_FOUND and writes nothing", async (_, end) => {
    const owner = await makeOwner();
    const create = () => catchErrorCode(owner.create(owner.body, "k"));
    expect(await runBehind([end, owner.userId, owner.listingId], create)).toBe("RESOURCE_NOT_FOUND");
    await setRole(owner.listingId, owner.userId, "OWNER");
    expect(await owner.countRows()).toEqual(NO_ROWS);
  });

  test.each(ENDS)(
    "%s: a waiting update or change of the form gets RESOURCE_NOT_FOUND for the form, a waiting move to the listing for the listing",
    async (_, end) => {
      const owner = await makeOwner();
      const other = await owner.addListing();
      const [updated, changed] = [await owner.addForm(), await owner.addForm()];
      const moved = await owner.addForm({ listingId: other.id });
      const { forms } = owner;
      const lock = await holdLock(end, [owner.userId, owner.listingId]);
      const calls = [
        catchServiceError(forms.update({ id: updated.id, ...fixedStay(owner.listingId) })),
        catchServiceError(forms.setStatus({ id: changed.id, status: "REGISTERED" })),
        catchServiceError(forms.update({ id: moved.id, ...fixedStay(owner.listingId) })),
      ];
      await waitForBlocked(3);
      await lock.commit();
      const notFound = (resource: string) => ({
        serviceCode: "RESOURCE_NOT_FOUND",
        message: expect.stringContaining(`no such ${resource},`),
      });
      expect(await Promise.all(calls)).toMatchObject(["form", "form", "listing"].map(notFound));
      await setRole(owner.listingId, owner.userId, "OWNER");
      for (const form of [updated, changed, moved]) expect(await forms.get({ id: form.id })).toEqual(form);
    },
  );
});

describe("a listing or form that changes while a write waits", () => {
  test("the listing's rules are checked as they are after the wait", async () => {
    const owner = await makeOwner();
    const restrict = "UPDATE listings SET active = false, max_people_in_listing = 1 WHERE id = $1";
    const create = () => catchRejectedFields(owner.create(owner.body));
    expect(await runBehind([restrict, owner.listingId], create)).toEqual(["listingId", "numberOfGuests"]);
  });

  test("a form that was moved out of scope or deleted gets RESOURCE_NOT_FOUND; one moved within the scope is updated", async () => {
    const owner = await makeOwner();
    const stranger = await makeOwner();
    const other = await owner.addListing();
    const move = "UPDATE forms SET listing_id = $2 WHERE id = $1";
    for (const [change, values, outcome] of [
      [move, [other.id], "updated"],
      [move, [stranger.listingId], "RESOURCE_NOT_FOUND"],
      ["DELETE FROM forms WHERE id = $1", [], "RESOURCE_NOT_FOUND"],
    ] as const) {
      const { id } = await owner.addForm();
      const result = await runBehind([change, id, ...values], () => {
        const update = owner.forms.update({ id, ...fixedStay(owner.listingId) });
        return update.then(
          () => "updated",
          () => catchErrorCode(update),
        );
      });
      expect(result).toBe(outcome);
    }
  });
});

test("40 concurrent updates that move one form back and forth all succeed, and the last one stands", async () => {
  const owner = await makeOwner();
  const other = await owner.addListing();
  const { id } = await owner.addForm();
  const results = new Map<string, FormV1>(
    await Promise.all(
      times(40, async (index) => {
        const correlationId = randomUUID();
        const caller = asUser(index % 4 < 2 ? services : second, owner.userId, { correlationId });
        const body = fixedStay(index % 2 ? other.id : owner.listingId, { numberOfGuests: index + 1 });
        return [correlationId, await caller.forms.update({ id, ...body })] as const;
      }),
    ),
  );
  const rows = await sql(
    "SELECT correlation_id FROM audit_entries WHERE subject_id = $1 AND action = 'form.updated' ORDER BY id",
    id,
  );
  expect(rows).toHaveLength(40);
  expect(await owner.forms.get({ id })).toEqual(results.get(rows.at(-1).correlation_id));
});

test("a create that waited gets the time of its insert, so it sorts after cursors returned during the wait", async () => {
  const owner = await makeOwner();
  const lock = await holdLock("SELECT FROM listings WHERE id = $1 FOR UPDATE", [owner.listingId]);
  const waiting = owner.create(owner.body);
  await waitForBlocked(1);
  const { rows } = await lock.client.query<{ now: Date }>("SELECT clock_timestamp() AS now");
  await lock.commit();
  const { form } = await waiting;
  expect(Date.parse(form.createdAt)).toBeGreaterThanOrEqual(rows[0]?.now.getTime() ?? Number.NaN);
});

const OLD_SECRET = "an-older-secret-for-tests-of-more-than-32-characters";

/** Returns the advisory locks on bodies and Idempotency-Keys that these backends wait for. */
const readAwaitedLocks = (pids: number[]) =>
  sql(
    `SELECT DISTINCT classid, objid FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1 AND pid = ANY($1) AND NOT granted`,
    pids,
  );

// In the second step of a rotation, processes disagree on the newest secret: they store other fingerprints for equal bodies,
// and only their locks keep one from creating a form beside the other's.
describe.each([
  ["one secret", [TEST_SECRET], [TEST_SECRET]],
  ["two secrets in different orders, as during a rotation", [TEST_SECRET, OLD_SECRET], [OLD_SECRET, TEST_SECRET]],
])("with %s", (_, secrets, secondSecrets) => {
  const one = withSecrets(services, ...secrets);
  const other = withSecrets(second, ...secondSecrets);
  const makeOwner = () => makeListingOwner(one);

  describe("concurrent equal creates", () => {
    test("50 equal creates on two processes make one form, email and audit entry, and get the same response", async () => {
      const owner = await makeOwner();
      const results = await Promise.all(
        times(50, (index) => owner.create(owner.body, undefined, index % 2 ? other : one)),
      );
      expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(results.map(({ form }) => JSON.stringify(form))).size).toBe(1);
      expect(await owner.countRows()).toEqual(ONE_FORM);
    });

    test.each(["an update", "a rejection"])(
      "after %s, 20 concurrent creates with two new Idempotency-Keys make one second form",
      async (change) => {
        const owner = await makeOwner();
        const { form } = await owner.create(owner.body);
        if (change === "an update") await owner.forms.update({ id: form.id, ...owner.body, numberOfGuests: 9 });
        else await operator.forms.setStatus({ id: form.id, status: "REJECTED" });
        const results = await Promise.all(
          times(20, (index) => owner.create(owner.body, `key ${index % 2}`, index % 4 < 2 ? one : other)),
        );
        expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
        expect(new Set(results.map(({ form: { id } }) => id)).size).toBe(1);
        expect(results[0]?.form.id).not.toBe(form.id);
        expect(await owner.countRows()).toMatchObject({ forms: 2, creations: 2, emails: 2, keys: 2 });
      },
    );
  });

  describe("concurrent creates with the same Idempotency-Key", () => {
    test("of two different bodies sent 20 times each, one body wins and the other gets IDEMPOTENCY_KEY_REUSED", async () => {
      const owner = await makeOwner();
      const bodies = [owner.body, { ...owner.body, numberOfGuests: 3 }];
      const outcomes = await Promise.all(
        times(40, async (index) => {
          const body = bodies[index % 2] ?? owner.body;
          const create = owner.create(body, "contested", index % 4 < 2 ? one : other);
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

    test.each([
      ["a create with another body", "k", 3],
      ["an equal create", undefined, 2],
    ])("%s waits for the first, and creates its form if the first fails", async (_, key, numberOfGuests) => {
      const owner = await makeOwner();
      const lock = await holdLock(LOCK_USERS, [[owner.userId]]);
      const first = catchServiceError(owner.create(owner.body, key));
      const [pid] = await waitForBlocked(1);
      const next = owner.create({ ...owner.body, numberOfGuests }, key, other);
      await waitForBlocked(2);
      await sql("SELECT pg_terminate_backend($1)", pid);
      expect(await first).toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503, retryAfter: expect.any(Number) });
      await waitForBlocked(1);
      await lock.commit();
      expect(await next).toMatchObject({ replayed: false, form: { numberOfGuests } });
      expect(await owner.countRows()).toEqual({ ...ONE_FORM, keys: key ? 1 : 0 });
      const isEqual = numberOfGuests === owner.body.numberOfGuests;
      expect((await owner.create(owner.body)).replayed, "the failed create bound nothing").toBe(isEqual);
    });

    test("two Idempotency-Keys crossed with two bodies do not deadlock: each create gets a form or IDEMPOTENCY_KEY_REUSED", async () => {
      const owner = await makeOwner();
      const outcomes = await Promise.all(
        times(32, async (index) => {
          const numberOfGuests = 1 + (index % 2);
          const key = index % 4 < 2 ? "a" : "b";
          const on = index % 8 < 4 ? one : other;
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
  });
});

describe("the locks of equal creates", () => {
  test.each([
    ["before and after the new secret is announced", [OLD_SECRET], [OLD_SECRET, TEST_SECRET]],
    ["before and after the new secret is used", [OLD_SECRET, TEST_SECRET], [TEST_SECRET, OLD_SECRET]],
    ["before and after the old secret is removed", [TEST_SECRET, OLD_SECRET], [TEST_SECRET]],
    ["before the new secret is announced and after it is used", [OLD_SECRET], [TEST_SECRET, OLD_SECRET]],
  ])("processes %s in a rotation wait for each other and replay", async (_, firstSecrets, secondSecrets) => {
    const owner = await makeOwner();
    const lock = await holdLock(LOCK_USERS, [[owner.userId]]);
    const first = owner.create(owner.body, undefined, withSecrets(services, ...firstSecrets));
    await waitForBlocked(1);
    const second = owner.create(owner.body, undefined, withSecrets(services, ...secondSecrets));
    const pids = await waitForBlocked(2);
    expect(await readAwaitedLocks(pids)).toHaveLength(1);
    await lock.commit();
    expect(await second).toEqual({ form: (await first).form, replayed: true });
  });

  test("two key holders with the same Idempotency-Key and body do not wait for each other", async () => {
    const [owner, other] = [await makeOwner(), await makeOwner()];
    await setRole(owner.listingId, other.userId, "WRITER");
    const lock = await holdLock(LOCK_USERS, [[owner.userId, other.userId]]);
    const creates = [owner, other].map(({ create }) => create(owner.body, "k"));
    expect(await readAwaitedLocks(await waitForBlocked(2))).toEqual([]);
    await lock.commit();
    expect((await Promise.all(creates)).map(({ replayed }) => replayed)).toEqual([false, false]);
  });

  test("a create overtaken by a process with other lock ids, such as one of another version, is retried and replays", async () => {
    const owner = await makeOwner();
    const form = await owner.addForm();
    const [fingerprint] = fingerprints(services.keyring.fingerprint, canonicalBody(createInput.parse(owner.body)));
    const overtake = "UPDATE creations SET fingerprint = $2, current_fingerprint = $2 WHERE form_id = $1";
    const create = () => owner.create(owner.body);
    expect(await runBehind([overtake, form.id, fingerprint], create)).toEqual({ form, replayed: true });
  });
});
