import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  asUser,
  catchErrorCode,
  catchRejectedFields,
  catchServiceError,
  makeForm,
  openTestServices,
  setRole,
} from "../support/factories.js";
import { type ListingOwner, makeListingOwner, NO_ROWS } from "../support/listing-owner.js";
import { holdLock, LOCK_USERS, waitForBlocked } from "../support/locks.js";
import { fixedStay } from "../support/stays.js";

/** Two processes on one database. */
let services: Services;
let second: Services;

beforeAll(async () => {
  services = await openTestServices();
  second = await openTestServices({ DATABASE_URL: services.db.url });
});

/** Blocks updates just before their end. */
const LOCK_AUDIT = "LOCK TABLE audit_entries IN SHARE ROW EXCLUSIVE MODE";
const DELETE_MEMBER = "DELETE FROM memberships WHERE user_id = $1 AND listing_id = $2";
const DEMOTE_MEMBER = "UPDATE memberships SET role = 'READER' WHERE user_id = $1 AND listing_id = $2";

const times = <Result>(count: number, make: (index: number) => Result) =>
  Array.from({ length: count }, (_, index) => make(index));

describe("a membership that ends while a write waits", () => {
  const ENDS = [
    ["membership removed", DELETE_MEMBER],
    ["role changed to reader", DEMOTE_MEMBER],
  ] as const;

  test.each(ENDS)("%s: a waiting create gets RESOURCE_NOT_FOUND and writes nothing", async (_, sql) => {
    const owner = await makeListingOwner(services);
    const lock = await holdLock(services, sql, [owner.userId, owner.listingId]);
    const create = catchErrorCode(owner.create(owner.body, "k"));
    await waitForBlocked(services, 1);
    await lock.commit();
    expect(await create).toBe("RESOURCE_NOT_FOUND");
    await setRole(services, owner.listingId, owner.userId, "OWNER");
    expect(await owner.countRows()).toEqual(NO_ROWS);
  });

  test.each(ENDS)(
    "%s: a waiting update or change of the form gets RESOURCE_NOT_FOUND for the form, a waiting move to the listing for the listing",
    async (_, sql) => {
      const owner = await makeListingOwner(services);
      const other = await owner.addListing();
      const [updated, changed] = [await owner.addForm(), await owner.addForm()];
      const moved = await owner.addForm({ listingId: other.id });
      const { forms } = owner;
      const lock = await holdLock(services, sql, [owner.userId, owner.listingId]);
      const calls = [
        catchServiceError(forms.update({ id: updated.id, ...fixedStay(owner.listingId) })),
        catchServiceError(forms.setStatus({ id: changed.id, status: "REGISTERED" })),
        catchServiceError(forms.update({ id: moved.id, ...fixedStay(owner.listingId) })),
      ];
      await waitForBlocked(services, 3);
      await lock.commit();
      const notFound = (resource: string) => ({
        serviceCode: "RESOURCE_NOT_FOUND",
        message: expect.stringContaining(`no such ${resource},`),
      });
      expect(await Promise.all(calls)).toMatchObject(["form", "form", "listing"].map(notFound));
      await setRole(services, owner.listingId, owner.userId, "OWNER");
      for (const form of [updated, changed, moved]) expect(await forms.get({ id: form.id })).toEqual(form);
    },
  );

  test("a waiting create succeeds if the removal of its membership is rolled back", async () => {
    const owner = await makeListingOwner(services);
    const lock = await holdLock(services, DELETE_MEMBER, [owner.userId, owner.listingId]);
    const create = owner.create(owner.body);
    await waitForBlocked(services, 1);
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
      (owner: ListingOwner, id: string) => owner.forms.update({ id, ...fixedStay(owner.listingId) }),
    ],
  ])(
    "a membership cannot be removed or demoted, nor the listing deactivated, before %s in flight has ended",
    async (_, sql, write) => {
      const owner = await makeListingOwner(services);
      const { form } = await owner.create(owner.body);
      const lock = await holdLock(services, sql, sql === LOCK_USERS ? [[owner.userId]] : []);
      const written = write(owner, form.id);
      await waitForBlocked(services, 1);
      for (const change of [
        DELETE_MEMBER,
        DEMOTE_MEMBER,
        "UPDATE listings SET active = $1::uuid IS NULL WHERE id = $2",
      ]) {
        const changer = await holdLock(services, "SET LOCAL lock_timeout = '50ms'");
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
    const lock = await holdLock(services, sql, [owner.listingId]);
    const create = catchRejectedFields(owner.create(owner.body));
    await waitForBlocked(services, 1);
    await lock.commit();
    expect(await create).toEqual(["listingId", "numberOfGuests"]);
  });

  test("a form that was moved out of scope gets RESOURCE_NOT_FOUND; one moved within the scope is updated", async () => {
    const owner = await makeListingOwner(services);
    const stranger = await makeListingOwner(services);
    const other = await owner.addListing();
    const { forms } = owner;
    for (const [target, outcome] of [
      [other.id, "updated"],
      [stranger.listingId, "RESOURCE_NOT_FOUND"],
    ]) {
      const form = await owner.addForm();
      const lock = await holdLock(services, "UPDATE forms SET listing_id = $2 WHERE id = $1", [
        form.id,
        target,
      ]);
      const update = forms.update({ id: form.id, ...fixedStay(owner.listingId) });
      const result = update.then(
        () => "updated",
        () => catchErrorCode(update),
      );
      await waitForBlocked(services, 1);
      await lock.commit();
      expect(await result).toBe(outcome);
    }
  });

  test("a form that was deleted gets RESOURCE_NOT_FOUND", async () => {
    const owner = await makeListingOwner(services);
    const form = await owner.addForm();
    const lock = await holdLock(services, "DELETE FROM forms WHERE id = $1", [form.id]);
    const update = owner.forms.update({ id: form.id, ...fixedStay(owner.listingId) });
    const code = catchErrorCode(update);
    await waitForBlocked(services, 1);
    await lock.commit();
    expect(await code).toBe("RESOURCE_NOT_FOUND");
  });
});

describe("concurrent updates", () => {
  test("40 concurrent updates that move one form back and forth all succeed, and the last one stands", async () => {
    const owner = await makeListingOwner(services);
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
    const { rows } = await services.db.pool.query<{ correlation_id: string }>(
      "SELECT correlation_id FROM audit_entries WHERE subject_id = $1 AND action = 'form.updated' ORDER BY id",
      [id],
    );
    expect(rows).toHaveLength(40);
    const last = results.get(rows.at(-1)?.correlation_id ?? "");
    expect(await owner.forms.get({ id })).toEqual(last);
  });

  test("concurrent moves in opposite directions, creates and role changes do not deadlock", async () => {
    const owner = await makeListingOwner(services);
    const other = await owner.addListing();
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
    const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [owner.listingId]);
    const waiting = owner.create(owner.body);
    await waitForBlocked(services, 1);
    const { rows } = await lock.client.query<{ now: Date }>("SELECT clock_timestamp() AS now");
    await lock.commit();
    const { form } = await waiting;
    expect(Date.parse(form.createdAt)).toBeGreaterThanOrEqual(rows[0]?.now.getTime() ?? Number.NaN);
  });
});
