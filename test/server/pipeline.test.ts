import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { Unavailable } from "../../server/failures.js";
import { open } from "../../server/secrets.js";
import {
  asKey,
  asOperator,
  asUser,
  catchRejectedFields,
  catchServiceError,
  makeForm,
  makeKey,
  makeListing,
  openTestServices,
} from "../support/factories.js";
import { makeListingOwner, NO_ROWS } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { fixedStay } from "../support/stays.js";

let services: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
});

async function updateListing(listingId: string, columns: string): Promise<void> {
  await services.db.pool.query(`UPDATE listings SET ${columns} WHERE id = $1`, [listingId]);
}

interface AuditRow {
  actor: string;
  actor_id: string | null;
  action: string;
  correlation_id: string;
  details: Record<string, unknown>;
}

async function auditEntriesOf(subjectId: string): Promise<AuditRow[]> {
  const { rows } = await services.db.pool.query<AuditRow>(
    `SELECT actor, actor_id, action, correlation_id, details FROM audit_entries WHERE subject_id = $1 ORDER BY id`,
    [subjectId],
  );
  return rows;
}

describe("the listing's rules on a create", () => {
  test("an inactive listing is rejected", async () => {
    const owner = await makeListingOwner(services, { active: false });
    expect(await catchRejectedFields(owner.create(owner.body))).toEqual(["listingId"]);
    expect(await owner.countRows()).toEqual(NO_ROWS);
  });

  test("more guests than the listing's limit are rejected", async () => {
    const owner = await makeListingOwner(services, { maxPeopleInListing: 2 });
    const create = (numberOfGuests: number) => owner.create({ ...owner.body, numberOfGuests });
    expect(await catchRejectedFields(create(3))).toEqual(["numberOfGuests"]);
    expect(await owner.countRows()).toEqual(NO_ROWS);
    expect((await create(2)).form.numberOfGuests).toBe(2);
  });

  test("all violated rules are reported together, and nothing is written", async () => {
    const owner = await makeListingOwner(services, { active: false, maxPeopleInListing: 1 });
    expect(await catchRejectedFields(owner.create(owner.body, "k"))).toEqual(["listingId", "numberOfGuests"]);
    expect(await owner.countRows()).toEqual(NO_ROWS);
  });

  test("a change of the listing applies from the next call", async () => {
    const owner = await makeListingOwner(services);
    await updateListing(owner.listingId, "active = false");
    expect(await catchRejectedFields(owner.create(owner.body))).toEqual(["listingId"]);
    await updateListing(owner.listingId, "active = true");
    expect((await owner.create(owner.body)).replayed).toBe(false);
  });
});

describe("the listing's rules on an update", () => {
  test("a form on an inactive listing can be updated and moved away, but no form can be moved there", async () => {
    const owner = await makeListingOwner(services);
    const second = await makeListing(services, owner.userId);
    const { id } = await makeForm(services, owner.userId, owner.listingId);
    const { forms } = asUser(services, owner.userId);
    await updateListing(owner.listingId, "active = false");
    const changed = await forms.update({ id, ...fixedStay(owner.listingId, { numberOfGuests: 5 }) });
    expect(changed.numberOfGuests).toBe(5);
    expect((await forms.update({ id, ...fixedStay(second.id) })).listingId).toBe(second.id);
    expect(await catchRejectedFields(forms.update({ id, ...fixedStay(owner.listingId) }))).toEqual([
      "listingId",
    ]);
    expect((await forms.get({ id })).listingId).toBe(second.id);
  });

  test("the guest limit of the target listing applies, with or without a move", async () => {
    const owner = await makeListingOwner(services, { maxPeopleInListing: 4 });
    const small = await makeListing(services, owner.userId, { maxPeopleInListing: 2, active: false });
    const form = await makeForm(services, owner.userId, owner.listingId);
    const { forms } = asUser(services, owner.userId);
    const put = (listingId: string, numberOfGuests: number) =>
      forms.update({ id: form.id, ...fixedStay(listingId, { numberOfGuests }) });
    expect(await catchRejectedFields(put(owner.listingId, 5))).toEqual(["numberOfGuests"]);
    expect(await catchRejectedFields(put(small.id, 3))).toEqual(["listingId", "numberOfGuests"]);
    expect(await forms.get({ id: form.id })).toEqual(form);
    expect((await put(owner.listingId, 4)).numberOfGuests).toBe(4);
  });
});

describe("an update", () => {
  test("changes only the fields of the body, and is idempotent", async () => {
    const owner = await makeListingOwner(services);
    const second = await makeListing(services, owner.userId);
    const form = await makeForm(services, owner.userId, owner.listingId);
    await asOperator(services).forms.setStatus({ id: form.id, status: "ACCEPTED" });
    const { forms } = asUser(services, owner.userId);
    const body = fixedStay(second.id, { numberOfGuests: 7 });
    const updated = await forms.update({ id: form.id, ...body });
    expect(updated).toEqual({
      ...form,
      listingId: second.id,
      checkInDate: body.checkInDate,
      checkOutDate: body.checkOutDate,
      numberOfGuests: 7,
      status: "ACCEPTED",
    });
    expect(await forms.update({ id: form.id, ...body })).toEqual(updated);
    expect(await forms.get({ id: form.id })).toEqual(updated);
  });

  test("keeps the stored address if the body has none, replaces it otherwise, and never notifies", async () => {
    const owner = await makeListingOwner(services);
    const { form } = await owner.create(owner.body);
    const { forms } = asUser(services, owner.userId);
    const stored = async (id: string) => {
      const row = await services.db.prisma.form.findUniqueOrThrow({ where: { id } });
      return row.guestEmail && open(services.keyring.email, row.guestEmail, id);
    };
    expect(await stored(form.id)).toBe("guest@example.com");
    for (const [guestEmail, kept] of [
      [undefined, "guest@example.com"],
      [null, "guest@example.com"],
      [" New.Guest@EXAMPLE.com", "New.Guest@example.com"],
      [undefined, "New.Guest@example.com"],
    ] as const) {
      await forms.update({ id: form.id, ...fixedStay(owner.listingId), guestEmail });
      expect(await stored(form.id)).toBe(kept);
    }
    expect((await owner.countRows()).notifications).toBe(1);

    const bare = await makeForm(services, owner.userId, owner.listingId);
    expect(await stored(bare.id)).toBeNull();
    await forms.update({ id: bare.id, ...fixedStay(owner.listingId, { guestEmail: "late@example.com" }) });
    expect(await stored(bare.id)).toBe("late@example.com");
    expect((await owner.countRows()).notifications).toBe(1);
  });
});

describe("the audit trail", () => {
  test("has an entry per write with actor and correlation id, and none for replays and errors", async () => {
    const owner = await makeListingOwner(services);
    const second = await makeListing(services, owner.userId);
    const key = await makeKey(services, owner.userId);
    const ids = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    const call = (index: number) => ({ correlationId: ids[index] ?? "" });
    const body = { ...owner.body, guestEmail: "audited@example.com" };

    const { id } = await asKey(services, key, call(0)).forms.create(body);
    await asKey(services, key, call(1)).forms.update({ id, ...body, listingId: second.id });
    await asUser(services, owner.userId, call(2)).forms.update({ id, ...body, listingId: second.id });
    await asOperator(services, call(3)).forms.setStatus({ id, status: "ACCEPTED" });
    const withoutEntry = { correlationId: randomUUID() };
    await asUser(services, owner.userId, withoutEntry).forms.create(body);
    const failing = asUser(services, owner.userId, withoutEntry).forms;
    await catchServiceError(failing.update({ id, ...body, listingId: randomUUID() }));
    await catchServiceError(failing.update({ id, ...body, numberOfGuests: 0 }));

    const rows = await auditEntriesOf(id);
    expect(rows).toEqual([
      {
        actor: "key",
        actor_id: key.id,
        action: "form.created",
        correlation_id: ids[0],
        details: { listingId: owner.listingId },
      },
      {
        actor: "key",
        actor_id: key.id,
        action: "form.updated",
        correlation_id: ids[1],
        details: { listingId: second.id, movedFrom: owner.listingId },
      },
      {
        actor: "user",
        actor_id: owner.userId,
        action: "form.updated",
        correlation_id: ids[2],
        details: { listingId: second.id },
      },
      {
        actor: "operator",
        actor_id: null,
        action: "form.status_set",
        correlation_id: ids[3],
        details: expect.objectContaining({ from: "SENT", to: "ACCEPTED" }),
      },
    ]);
    const { rows: none } = await services.db.pool.query(
      "SELECT FROM audit_entries WHERE correlation_id = $1",
      [withoutEntry.correlationId],
    );
    expect(none).toHaveLength(0);
  });

  test("has an entry for every write of the operator", async () => {
    const operator = (correlationId: string) => asOperator(services, { correlationId });
    const actions = async (correlationId: string) => {
      const { rows } = await services.db.pool.query<AuditRow>(
        "SELECT action, actor FROM audit_entries WHERE correlation_id = $1 ORDER BY id",
        [correlationId],
      );
      return rows.map(({ action, actor }) => `${actor} ${action}`);
    };
    const id = randomUUID();
    const owner = await makeListingOwner(services);
    const user = await operator(id).users.create({ email: "audited.user@example.com" });
    await operator(id).members.set({ listingId: owner.listingId, userId: user.id, role: "WRITER" });
    await operator(id).members.remove({ listingId: owner.listingId, userId: user.id });
    const key = await operator(id).keys.issue({ userId: user.id, mode: "READ_ONLY" });
    await operator(id).keys.rotate({ id: key.id });
    await operator(id).keys.revoke({ id: key.id });
    await operator(id).keys.revoke({ id: key.id });
    await catchServiceError(operator(id).users.create({ email: "Audited.User@example.com".toLowerCase() }));
    expect(await actions(id)).toEqual([
      "operator user.created",
      "operator member.set",
      "operator member.removed",
      "operator key.issued",
      "operator key.rotated",
      "operator key.revoked",
    ]);
  });
});

describe("a write that fails at its last step", () => {
  test("rolls a create back, binds no Idempotency-Key, and does not reveal the cause", async () => {
    const owner = await makeListingOwner(services);
    await services.db.pool.query(`
      CREATE FUNCTION reject_notification() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'on purpose'; END $$;
      CREATE TRIGGER reject_notification BEFORE INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION reject_notification()`);
    expect(await catchServiceError(owner.create(owner.body, "k"))).toEqual({
      serviceCode: "INTERNAL_ERROR",
      code: "INTERNAL_SERVER_ERROR",
      status: 500,
      message: "Internal error. Retry later; if it persists, report the correlationId.",
      errors: undefined,
      retryAfter: undefined,
    });
    expect(await owner.countRows()).toEqual(NO_ROWS);
    // Without an address no notification is enqueued.
    expect((await owner.create(fixedStay(owner.listingId))).replayed).toBe(false);
    await services.db.pool.query("DROP FUNCTION reject_notification CASCADE");
    expect((await owner.create({ ...owner.body, numberOfGuests: 3 }, "k")).replayed).toBe(false);
    expect(await owner.countRows()).toEqual({ forms: 2, creations: 2, keys: 1, notifications: 1, audit: 2 });
  });

  test("rolls an update back", async () => {
    const owner = await makeListingOwner(services);
    const second = await makeListing(services, owner.userId);
    const { form } = await owner.create(owner.body);
    const { forms } = asUser(services, owner.userId);
    await services.db.pool.query("ALTER TABLE audit_entries RENAME TO no_audit");
    const failed = await catchServiceError(
      forms.update({ id: form.id, ...fixedStay(second.id, { numberOfGuests: 9 }) }),
    );
    await services.db.pool.query("ALTER TABLE no_audit RENAME TO audit_entries");
    expect(failed).toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 500 });
    expect(await forms.get({ id: form.id })).toEqual(form);
    expect(await owner.create(owner.body, "new")).toEqual({ form, replayed: true });
  });
});

describe("a write whose deadline has passed", () => {
  const expired = { signal: AbortSignal.abort(new Unavailable("too late")) };

  test("is not started", async () => {
    const owner = await makeListingOwner(services);
    const caller = asUser(services, owner.userId, expired);
    expect(await catchServiceError(caller.forms.create(owner.body))).toMatchObject({
      status: 503,
      retryAfter: 1,
    });
    expect(await owner.countRows()).toEqual(NO_ROWS);
    const { form } = await owner.create(owner.body);
    const update = caller.forms.update({
      id: form.id,
      ...fixedStay(owner.listingId, { numberOfGuests: 4 }),
    });
    expect(await catchServiceError(update)).toMatchObject({ status: 503, retryAfter: 1 });
    expect(await asUser(services, owner.userId).forms.get({ id: form.id })).toEqual(form);
  });

  test("is rolled back if the deadline passes while it waits for a lock", async () => {
    const owner = await makeListingOwner(services);
    const { form } = await owner.create(owner.body);
    const deadline = new AbortController();
    const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [owner.listingId]);
    const caller = asUser(services, owner.userId, { signal: deadline.signal });
    const body = fixedStay(owner.listingId, { numberOfGuests: 4 });
    const late = catchServiceError(caller.forms.update({ id: form.id, ...body }));
    await waitForBlocked(services, 1);
    deadline.abort(new Unavailable("too late"));
    await lock.commit();
    expect(await late).toMatchObject({ status: 503, retryAfter: 1 });
    expect(await asUser(services, owner.userId).forms.get({ id: form.id })).toEqual(form);
  });
});

test("a form whose address no secret can decrypt can be updated, and keeps that address until it gets another", async () => {
  const owner = await makeListingOwner(services);
  const { form } = await owner.create(owner.body);
  const stored = async () =>
    (await services.db.pool.query("SELECT guest_email FROM forms WHERE id = $1", [form.id])).rows[0]
      .guest_email;
  const unreadable = Buffer.alloc(50, 1);
  await services.db.pool.query("UPDATE forms SET guest_email = $2 WHERE id = $1", [form.id, unreadable]);
  const { forms } = asUser(services, owner.userId);
  const body = fixedStay(owner.listingId, { numberOfGuests: 4 });
  expect((await forms.update({ id: form.id, ...body })).numberOfGuests).toBe(4);
  expect(await stored()).toEqual(unreadable);
  await forms.update({ id: form.id, ...body, guestEmail: "new@example.com" });
  expect(await stored()).not.toEqual(unreadable);
});
