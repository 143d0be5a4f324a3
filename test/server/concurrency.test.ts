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

// One secret: equal creates meet in an index. Two, as while it is being changed: they take turns.
describe.each([
  ["one secret", { APP_SECRETS: "" }],
  ["a secret being changed", {}],
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

  /** Another connection, in a transaction that has run the statement and so holds its locks. */
  async function holding(sql: string, values: unknown[] = []) {
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

  /** Waits until so many statements of the services wait for a lock; gives their backends, the longest at it first. */
  async function blocked(count: number): Promise<number[]> {
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

  /** Holds an update up just before its end. */
  const LOCK_AUDIT = "LOCK TABLE audit_entries IN SHARE ROW EXCLUSIVE MODE";
  /** Holds the creates of these users up at their end, when they have inserted all their rows. */
  const LOCK_USERS = "SELECT FROM users WHERE id = ANY($1) FOR UPDATE";
  const DELETE_MEMBER = "DELETE FROM memberships WHERE user_id = $1 AND listing_id = $2";
  const DEMOTE_MEMBER = "UPDATE memberships SET role = 'READER' WHERE user_id = $1 AND listing_id = $2";

  const times = <Result>(count: number, make: (index: number) => Result) =>
    Array.from({ length: count }, (_, index) => make(index));

  describe("equal creates at the same time", () => {
    test("50 on two processes make one form, one job, one audit row, and get one answer", async () => {
      const owner = await makeListingOwner(services);
      const answers = await Promise.all(
        times(50, (index) => owner.create(owner.body, undefined, index % 2 ? second : services)),
      );
      expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(answers.map(({ form }) => JSON.stringify(form))).size).toBe(1);
      expect(await owner.countRows()).toEqual({ forms: 1, creations: 1, keys: 0, jobs: 1, audit: 1 });
    });

    test("with one key, with many and with none, the same; each key is bound", async () => {
      const owner = await makeListingOwner(services);
      const keys = times(30, (index) =>
        index % 3 === 0 ? undefined : index % 3 === 1 ? "one" : `key ${index}`,
      );
      const answers = await Promise.all(
        keys.map((key, index) => owner.create(owner.body, key, index % 2 ? second : services)),
      );
      expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(answers.map(({ form }) => form.id)).size).toBe(1);
      expect(await owner.countRows()).toEqual({ forms: 1, creations: 1, keys: 11, jobs: 1, audit: 1 });
    });

    test("a new key on a changed form makes one second form, however often it is sent at once", async () => {
      const owner = await makeListingOwner(services);
      const { form } = await owner.create(owner.body);
      await asUser(services, owner.userId).forms.update({ id: form.id, ...fixedStay(owner.listingId) });
      await asUser(services, owner.userId).forms.update({
        id: form.id,
        ...fixedStay(owner.listingId, { numberOfGuests: 9 }),
      });
      const answers = await Promise.all(
        times(20, (index) => owner.create(owner.body, "again", index % 2 ? second : services)),
      );
      expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect(new Set(answers.map(({ form: { id } }) => id)).size).toBe(1);
      expect(answers[0]?.form.id).not.toBe(form.id);
      expect((await owner.countRows()).forms).toBe(2);
    });
  });

  describe("two bodies with one Idempotency-Key at the same time", () => {
    test("20 of each: one body wins, all of the other are refused", async () => {
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
      expect(await owner.countRows()).toEqual({ forms: 1, creations: 1, keys: 1, jobs: 1, audit: 1 });
    });

    test("the second waits for the first, and is refused where that committed", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holding(LOCK_USERS, [[owner.userId]]);
      const first = owner.create(owner.body, "k");
      await blocked(1);
      const other = catchErrorCode(owner.create({ ...owner.body, numberOfGuests: 3 }, "k", second));
      await blocked(2);
      await lock.commit();
      expect((await first).replayed).toBe(false);
      expect(await other).toBe("IDEMPOTENCY_KEY_REUSED");
    });

    test("where the first fails, even by a crash, the second runs itself", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holding(LOCK_USERS, [[owner.userId]]);
      const first = catchServiceError(owner.create(owner.body, "k"));
      const [pid] = await blocked(1);
      const other = owner.create({ ...owner.body, numberOfGuests: 3 }, "k", second);
      await blocked(2);
      await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
      expect(await first).toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503, retryAfter: 1 });
      await blocked(1);
      await lock.commit();
      expect((await other).form.numberOfGuests).toBe(3);
      expect(await owner.countRows()).toEqual({ forms: 1, creations: 1, keys: 1, jobs: 1, audit: 1 });
      expect((await owner.create(owner.body)).replayed).toBe(false);
    });

    test("an equal create waits too, and runs itself where the first fails", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holding(LOCK_USERS, [[owner.userId]]);
      const first = catchServiceError(owner.create(owner.body));
      const [pid] = await blocked(1);
      const equal = owner.create(owner.body, undefined, second);
      await blocked(2);
      await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
      await first;
      await blocked(1);
      await lock.commit();
      expect((await equal).replayed).toBe(false);
      expect((await owner.countRows()).forms).toBe(1);
    });

    test("keys and bodies crossed over end, each with a form or a refusal", async () => {
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

    test("two holders with one key and one body do not wait for each other", async () => {
      const owner = await makeListingOwner(services);
      const other = await makeListingOwner(services);
      await setRole(services, owner.listingId, other.userId, "WRITER");
      const lock = await holding(LOCK_USERS, [[owner.userId, other.userId]]);
      const calls = [owner.create(owner.body, "k"), other.create(owner.body, "k", second)];
      const pids = await blocked(2);
      const { rows } = await services.db.pool.query(
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = ANY($1)",
        [pids],
      );
      expect(rows).toHaveLength(0);
      await lock.commit();
      const answers = await Promise.all(calls);
      expect(answers.map(({ replayed }) => replayed)).toEqual([false, false]);
    });
  });

  describe("a membership that is taken away while a write waits", () => {
    test.each([
      ["removed", DELETE_MEMBER],
      ["demoted", DEMOTE_MEMBER],
    ])("%s: a create is not found, and nothing is written", async (_, sql) => {
      const owner = await makeListingOwner(services);
      const lock = await holding(sql, [owner.userId, owner.listingId]);
      const create = catchErrorCode(owner.create(owner.body, "k"));
      await blocked(1);
      await lock.commit();
      expect(await create).toBe("RESOURCE_NOT_FOUND");
      await setRole(services, owner.listingId, owner.userId, "OWNER");
      expect(await owner.countRows()).toEqual({ forms: 0, creations: 0, keys: 0, jobs: 0, audit: 0 });
    });

    test.each([
      ["removed", DELETE_MEMBER],
      ["demoted", DEMOTE_MEMBER],
    ])("%s: an update of the form, or a move to the listing, is not found", async (_, sql) => {
      const owner = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const [onListing, onOther] = [
        await makeForm(services, owner.userId, owner.listingId),
        await makeForm(services, owner.userId, other.id),
      ];
      const { forms } = asUser(services, owner.userId);
      const lock = await holding(sql, [owner.userId, owner.listingId]);
      const calls = [
        catchErrorCode(forms.update({ id: onListing.id, ...fixedStay(owner.listingId) })),
        catchErrorCode(forms.update({ id: onOther.id, ...fixedStay(owner.listingId) })),
      ];
      await blocked(2);
      await lock.commit();
      expect(await Promise.all(calls)).toEqual(["RESOURCE_NOT_FOUND", "RESOURCE_NOT_FOUND"]);
      await setRole(services, owner.listingId, owner.userId, "OWNER");
      expect(await forms.get({ id: onListing.id })).toEqual(onListing);
      expect(await forms.get({ id: onOther.id })).toEqual(onOther);
    });

    test("and given back: the write goes on", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holding(DELETE_MEMBER, [owner.userId, owner.listingId]);
      const create = owner.create(owner.body);
      await blocked(1);
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
    ])("is not taken away before %s under way has ended", async (_, sql, write) => {
      const owner = await makeListingOwner(services);
      const { form } = await owner.create(owner.body);
      const lock = await holding(sql, sql === LOCK_USERS ? [[owner.userId]] : []);
      const written = write(owner, form.id);
      await blocked(1);
      for (const change of [
        DELETE_MEMBER,
        DEMOTE_MEMBER,
        "UPDATE listings SET active = $1::uuid IS NULL WHERE id = $2",
      ]) {
        const impatient = await holding("SET LOCAL lock_timeout = '50ms'");
        const changed = impatient.client.query(change, [owner.userId, owner.listingId]);
        await expect(changed).rejects.toMatchObject({ code: "55P03" });
        await impatient.rollback();
      }
      await lock.commit();
      await written;
    });
  });

  describe("a listing or form that changes while a write waits", () => {
    test("the listing's rules are judged as they then are", async () => {
      const owner = await makeListingOwner(services);
      const sql = "UPDATE listings SET active = false, max_people_in_listing = 1 WHERE id = $1";
      const lock = await holding(sql, [owner.listingId]);
      const create = catchRejectedFields(owner.create(owner.body));
      await blocked(1);
      await lock.commit();
      expect(await create).toEqual(["listingId", "numberOfGuests"]);
    });

    test("a form that was moved out of scope is not found; one moved within it is updated there", async () => {
      const owner = await makeListingOwner(services);
      const stranger = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const { forms } = asUser(services, owner.userId);
      for (const [target, outcome] of [
        [other.id, "updated"],
        [stranger.listingId, "RESOURCE_NOT_FOUND"],
      ]) {
        const form = await makeForm(services, owner.userId, owner.listingId);
        const lock = await holding("UPDATE forms SET listing_id = $2 WHERE id = $1", [form.id, target]);
        const update = forms.update({ id: form.id, ...fixedStay(owner.listingId) });
        const seen = update.then(
          () => "updated",
          () => catchErrorCode(update),
        );
        await blocked(1);
        await lock.commit();
        expect(await seen).toBe(outcome);
      }
    });

    test("a form that is deleted is not found", async () => {
      const owner = await makeListingOwner(services);
      const form = await makeForm(services, owner.userId, owner.listingId);
      const lock = await holding("DELETE FROM forms WHERE id = $1", [form.id]);
      const update = asUser(services, owner.userId).forms.update({
        id: form.id,
        ...fixedStay(owner.listingId),
      });
      const code = catchErrorCode(update);
      await blocked(1);
      await lock.commit();
      expect(await code).toBe("RESOURCE_NOT_FOUND");
    });
  });

  describe("updates at the same time", () => {
    test("of one form, moving it to and fro: none is lost, none not found, the last one stands", async () => {
      const owner = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const { id } = await makeForm(services, owner.userId, owner.listingId);
      const answers = new Map<string, FormV1>(
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
      const last = answers.get(rows.at(-1)?.correlation_id ?? "");
      expect(await asUser(services, owner.userId).forms.get({ id })).toEqual(last);
    });

    test("of many forms, moving them in opposite directions while listings take creates: none fails", async () => {
      const owner = await makeListingOwner(services);
      const other = await makeListing(services, owner.userId);
      const ends = [owner.listingId, other.id] as const;
      const forms = await Promise.all(
        times(8, (index) => makeForm(services, owner.userId, ends[index % 2] ?? other.id)),
      );
      const rounds = times(4, (round) => round);
      const moves = forms.map(async ({ id }, index) => {
        for (const round of rounds) {
          const on = (index + round) % 2 ? services : second;
          await asUser(on, owner.userId).forms.update({
            id,
            ...fixedStay(ends[(index + round + 1) % 2] ?? other.id),
          });
        }
      });
      const creates = times(16, (index) => makeForm(services, owner.userId, ends[index % 2] ?? other.id));
      const roles = rounds.map((round) =>
        setRole(services, ends[round % 2] ?? other.id, owner.userId, round % 2 ? "OWNER" : "WRITER"),
      );
      await Promise.all([...moves, ...creates, ...roles]);
      expect((await owner.countRows()).forms).toBe(24);
    });
  });

  describe("the creation time", () => {
    test("of a create that waited is when it was written, so that it is behind no cursor given out meanwhile", async () => {
      const owner = await makeListingOwner(services);
      const lock = await holding("SELECT FROM listings WHERE id = $1 FOR UPDATE", [owner.listingId]);
      const waiting = owner.create(owner.body);
      await blocked(1);
      const { rows } = await lock.client.query<{ now: Date }>("SELECT clock_timestamp() AS now");
      await lock.commit();
      const { form } = await waiting;
      expect(Date.parse(form.createdAt)).toBeGreaterThanOrEqual(rows[0]?.now.getTime() ?? Number.NaN);
    });
  });
});
