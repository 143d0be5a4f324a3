import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  asUser,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  fixedStay,
  makeForm,
  makeListing,
  openTestServices,
  setRole,
} from "../factories.js";
import { type ListingOwner, makeListingOwner } from "./listing-owner.js";

// With two secrets, as during a rotation, each body has two fingerprints.
describe.each([
  ["one secret", { APP_SECRETS: "" }],
  ["two secrets, as during a rotation", {}],
])("with %s", (_, env) => {
  /** Two processes on one database. */
  let services: Services;
  let second: Services;

  beforeAll(async () => {
    services = await openTestServices(env);
    second = await openTestServices({ ...env, DATABASE_URL: services.db.url });
  });

  const clients: pg.Client[] = [];

  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.end()));
  });

  /** Runs the statement in a transaction on another connection, which holds its locks until the transaction ends. */
  async function holdLock(sql: string, values: unknown[] = []) {
    const client = new pg.Client({ connectionString: services.db.url });
    clients.push(client);
    await client.connect();
    await client.query("BEGIN");
    await client.query(sql, values);
    return {
      client,
      commit: () => client.query("COMMIT"),
      rollback: () => client.query("ROLLBACK"),
    };
  }

  /** Waits until `count` statements wait for a lock. Returns their backend pids, the longest-running first. */
  async function waitForBlocked(count: number): Promise<number[]> {
    let pids: number[] = [];
    await expect
      .poll(
        async () => {
          const { rows } = await services.db.pool.query<{ pid: number }>(
            `SELECT pid FROM pg_stat_activity
           WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY query_start`,
          );
          pids = rows.map(({ pid }) => pid);
          return pids.length;
        },
        { interval: 10 },
      )
      .toBe(count);
    return pids;
  }

  /** Blocks updates just before their end. */
  const LOCK_AUDIT = "LOCK TABLE audit_entries IN SHARE ROW EXCLUSIVE MODE";
  /** Blocks the creates of these users at their end, after they have inserted all their rows. */
  const LOCK_USERS = "SELECT FROM users WHERE id = ANY($1) FOR UPDATE";
  const DELETE_MEMBER = "DELETE FROM memberships WHERE user_id = $1 AND listing_id = $2";
  const DEMOTE_MEMBER = "UPDATE memberships SET role = 'READER' WHERE user_id = $1 AND listing_id = $2";

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
      expect(await owner.countRows()).toEqual({
        forms: 1,
        creations: 1,
        keys: 0,
        notifications: 1,
        audit: 1,
      });
    });

    test("equal creates with one, many or no Idempotency-Key make one form, and every key is bound to it", async () => {
      const owner = await makeListingOwner(services);
      const keys = times(30, (index) =>
        index % 3 === 0 ? undefined : index % 3 === 1 ? "one" : `key ${index}`,
      );
      const results = await Promise.all(
        keys.map((key, index) => owner.create(owner.body, key, index % 2 ? second : services)),
      );
      expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(results.map(({ form }) => form.id)).size).toBe(1);
      expect(await owner.countRows()).toEqual({
        forms: 1,
        creations: 1,
        keys: 11,
        notifications: 1,
        audit: 1,
      });
    });

    test("after an update, 20 concurrent creates with one new Idempotency-Key make one second form", async () => {
      const owner = await makeListingOwner(services);
      const { form } = await owner.create(owner.body);
      await asUser(services, owner.userId).forms.update({ id: form.id, ...fixedStay(owner.listingId) });
      await asUser(services, owner.userId).forms.update({
        id: form.id,
        ...fixedStay(owner.listingId, { numberOfGuests: 9 }),
      });
      const results = await Promise.all(
        times(20, (index) => owner.create(owner.body, "again", index % 2 ? second : services)),
      );
      expect(results.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(results.map(({ form: { id } }) => id)).size).toBe(1);
      expect(results[0]?.form.id).not.toBe(form.id);
      expect((await owner.countRows()).forms).toBe(2);
    });
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
      expect(await owner.countRows()).toEqual({
        forms: 1,
        creations: 1,
        keys: 1,
        notifications: 1,
        audit: 1,
      });
    });

    test("a create with another body waits for the first, and is rejected if the first commits", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(LOCK_USERS, [[owner.userId]]);
      const first = owner.create(owner.body, "k");
      await waitForBlocked(1);
      const other = catchErrorCode(owner.create({ ...owner.body, numberOfGuests: 3 }, "k", second));
      await waitForBlocked(2);
      await lock.commit();
      expect((await first).replayed).toBe(false);
      expect(await other).toBe("IDEMPOTENCY_KEY_REUSED");
    });

    test("a create with another body waits for the first, and creates its form if the first fails", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(LOCK_USERS, [[owner.userId]]);
      const first = catchServiceError(owner.create(owner.body, "k"));
      const [pid] = await waitForBlocked(1);
      const other = owner.create({ ...owner.body, numberOfGuests: 3 }, "k", second);
      await waitForBlocked(2);
      await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
      expect(await first).toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503, retryAfter: 1 });
      await waitForBlocked(1);
      await lock.commit();
      expect((await other).form.numberOfGuests).toBe(3);
      expect(await owner.countRows()).toEqual({
        forms: 1,
        creations: 1,
        keys: 1,
        notifications: 1,
        audit: 1,
      });
      expect((await owner.create(owner.body)).replayed).toBe(false);
    });

    test("an equal create waits for the first, and creates the form if the first fails", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(LOCK_USERS, [[owner.userId]]);
      const first = catchServiceError(owner.create(owner.body));
      const [pid] = await waitForBlocked(1);
      const equal = owner.create(owner.body, undefined, second);
      await waitForBlocked(2);
      await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
      await first;
      await waitForBlocked(1);
      await lock.commit();
      expect((await equal).replayed).toBe(false);
      expect((await owner.countRows()).forms).toBe(1);
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
      const lock = await holdLock(LOCK_USERS, [[owner.userId, other.userId]]);
      const calls = [owner.create(owner.body, "k"), other.create(owner.body, "k", second)];
      const pids = await waitForBlocked(2);
      const { rows } = await services.db.pool.query(
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = ANY($1)",
        [pids],
      );
      expect(rows).toHaveLength(0);
      await lock.commit();
      const results = await Promise.all(calls);
      expect(results.map(({ replayed }) => replayed)).toEqual([false, false]);
    });
  });

  describe("a membership that ends while a write waits", () => {
    test.each([
      ["membership removed", DELETE_MEMBER],
      ["role changed to reader", DEMOTE_MEMBER],
    ])("%s: a waiting create gets RESOURCE_NOT_FOUND and writes nothing", async (_, sql) => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(sql, [owner.userId, owner.listingId]);
      const create = catchErrorCode(owner.create(owner.body, "k"));
      await waitForBlocked(1);
      await lock.commit();
      expect(await create).toBe("RESOURCE_NOT_FOUND");
      await setRole(services, owner.listingId, owner.userId, "OWNER");
      expect(await owner.countRows()).toEqual({
        forms: 0,
        creations: 0,
        keys: 0,
        notifications: 0,
        audit: 0,
      });
    });

    test.each([
      ["membership removed", DELETE_MEMBER],
      ["role changed to reader", DEMOTE_MEMBER],
    ])("%s: a waiting update of the form or move to the listing gets RESOURCE_NOT_FOUND", async (_, sql) => {
      const owner = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const [onListing, onOther] = [
        await makeForm(services, owner.userId, owner.listingId),
        await makeForm(services, owner.userId, other.id),
      ];
      const { forms } = asUser(services, owner.userId);
      const lock = await holdLock(sql, [owner.userId, owner.listingId]);
      const calls = [
        catchErrorCode(forms.update({ id: onListing.id, ...fixedStay(owner.listingId) })),
        catchErrorCode(forms.update({ id: onOther.id, ...fixedStay(owner.listingId) })),
      ];
      await waitForBlocked(2);
      await lock.commit();
      expect(await Promise.all(calls)).toEqual(["RESOURCE_NOT_FOUND", "RESOURCE_NOT_FOUND"]);
      await setRole(services, owner.listingId, owner.userId, "OWNER");
      expect(await forms.get({ id: onListing.id })).toEqual(onListing);
      expect(await forms.get({ id: onOther.id })).toEqual(onOther);
    });

    test("a waiting create succeeds if the removal of its membership is rolled back", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock(DELETE_MEMBER, [owner.userId, owner.listingId]);
      const create = owner.create(owner.body);
      await waitForBlocked(1);
      await lock.rollback();
      expect((await create).replayed).toBe(false);
    });

    test.each([
      [
        "a create",
        LOCK_USERS,
        (owner: ListingOwner, _id: string) => owner.create({ ...owner.body, numberOfGuests: 3 }),
      ],
      [
        "an update",
        LOCK_AUDIT,
        (owner: ListingOwner, id: string) =>
          asUser(services, owner.userId).forms.update({ id, ...fixedStay(owner.listingId) }),
      ],
    ])(
      "a membership cannot be removed or demoted, nor the listing deactivated, before %s in flight has ended",
      async (_, sql, write) => {
        const owner = await makeListingOwner(services);
        const { form } = await owner.create(owner.body);
        const lock = await holdLock(sql, sql === LOCK_USERS ? [[owner.userId]] : []);
        const written = write(owner, form.id);
        await waitForBlocked(1);
        for (const change of [
          DELETE_MEMBER,
          DEMOTE_MEMBER,
          "UPDATE listings SET active = $1::uuid IS NULL WHERE id = $2",
        ]) {
          const changer = await holdLock("SET LOCAL lock_timeout = '50ms'");
          const changed = changer.client.query(change, [owner.userId, owner.listingId]);
          await expect(changed).rejects.toMatchObject({ code: "55P03" });
          await changer.rollback();
        }
        await lock.commit();
        await written;
      },
    );
  });

  describe("a listing or form that changes while a write waits", () => {
    test("the listing's rules are checked as they are after the wait", async () => {
      const owner = await makeListingOwner(services);
      const sql = "UPDATE listings SET active = false, max_people_in_listing = 1 WHERE id = $1";
      const lock = await holdLock(sql, [owner.listingId]);
      const create = catchRejectedFields(owner.create(owner.body));
      await waitForBlocked(1);
      await lock.commit();
      expect(await create).toEqual(["listingId", "numberOfGuests"]);
    });

    test("a form that was moved out of scope gets RESOURCE_NOT_FOUND; one moved within the scope is updated", async () => {
      const owner = await makeListingOwner(services);
      const stranger = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const { forms } = asUser(services, owner.userId);
      for (const [target, outcome] of [
        [other.id, "updated"],
        [stranger.listingId, "RESOURCE_NOT_FOUND"],
      ]) {
        const form = await makeForm(services, owner.userId, owner.listingId);
        const lock = await holdLock("UPDATE forms SET listing_id = $2 WHERE id = $1", [form.id, target]);
        const update = forms.update({ id: form.id, ...fixedStay(owner.listingId) });
        const result = update.then(
          () => "updated",
          () => catchErrorCode(update),
        );
        await waitForBlocked(1);
        await lock.commit();
        expect(await result).toBe(outcome);
      }
    });

    test("a form that was deleted gets RESOURCE_NOT_FOUND", async () => {
      const owner = await makeListingOwner(services);
      const form = await makeForm(services, owner.userId, owner.listingId);
      const lock = await holdLock("DELETE FROM forms WHERE id = $1", [form.id]);
      const update = asUser(services, owner.userId).forms.update({
        id: form.id,
        ...fixedStay(owner.listingId),
      });
      const code = catchErrorCode(update);
      await waitForBlocked(1);
      await lock.commit();
      expect(await code).toBe("RESOURCE_NOT_FOUND");
    });
  });

  describe("concurrent updates", () => {
    test("40 concurrent updates that move one form back and forth all succeed, and the last one stands", async () => {
      const owner = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const { id } = await makeForm(services, owner.userId, owner.listingId);
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
      const { rows } = await services.db.pool.query<{ correlation_id: string }>(
        "SELECT correlation_id FROM audit_entries WHERE subject_id = $1 AND action = 'form.updated' ORDER BY id",
        [id],
      );
      expect(rows).toHaveLength(40);
      const last = results.get(rows.at(-1)?.correlation_id ?? "");
      expect(await asUser(services, owner.userId).forms.get({ id })).toEqual(last);
    });

    test("concurrent moves in opposite directions, creates and role changes do not deadlock", async () => {
      const owner = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const targets = [owner.listingId, other.id] as const;
      const forms = await Promise.all(
        times(8, (index) => makeForm(services, owner.userId, targets[index % 2] ?? other.id)),
      );
      const rounds = times(4, (round) => round);
      const moves = forms.map(async ({ id }, index) => {
        for (const round of rounds) {
          const on = (index + round) % 2 ? services : second;
          await asUser(on, owner.userId).forms.update({
            id,
            ...fixedStay(targets[(index + round + 1) % 2] ?? other.id),
          });
        }
      });
      const creates = times(16, (index) => makeForm(services, owner.userId, targets[index % 2] ?? other.id));
      const roles = rounds.map((round) =>
        setRole(services, targets[round % 2] ?? other.id, owner.userId, round % 2 ? "OWNER" : "WRITER"),
      );
      await Promise.all([...moves, ...creates, ...roles]);
      expect((await owner.countRows()).forms).toBe(24);
    });
  });

  describe("createdAt", () => {
    test("a create that waited gets the time of its insert, so it sorts after cursors returned during the wait", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holdLock("SELECT FROM listings WHERE id = $1 FOR UPDATE", [owner.listingId]);
      const waiting = owner.create(owner.body);
      await waitForBlocked(1);
      const { rows } = await lock.client.query<{ now: Date }>("SELECT clock_timestamp() AS now");
      await lock.commit();
      const { form } = await waiting;
      expect(Date.parse(form.createdAt)).toBeGreaterThanOrEqual(rows[0]?.now.getTime() ?? Number.NaN);
    });
  });
});
