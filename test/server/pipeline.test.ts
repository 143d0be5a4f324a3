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
  makeKey,
  openTestServices,
} from "../support/factories.js";
import { makeListingOwner, NO_ROWS } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { fixedStay } from "../support/stays.js";
import { type Forward, TcpProxy } from "../support/tcp-proxy.js";

let services: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
});

async function updateListing(listingId: string, columns: string): Promise<void> {
  await services.db.pool.query(`UPDATE listings SET ${columns} WHERE id = $1`, [listingId]);
}

describe("the listing's rules on a create", () => {
  test.each([
    ["an inactive listing", { active: false }, 2, ["listingId"]],
    ["one guest more than the listing's limit", { maxPeopleInListing: 2 }, 3, ["numberOfGuests"]],
    [
      "more than one violated rule",
      { active: false, maxPeopleInListing: 1 },
      2,
      ["listingId", "numberOfGuests"],
    ],
  ])("%s is rejected with its fields, and nothing is written", async (_, listing, numberOfGuests, fields) => {
    const owner = await makeListingOwner(services, listing);
    const create = owner.create({ ...owner.body, numberOfGuests }, "k");
    expect(await catchRejectedFields(create)).toEqual(fields);
    expect(await owner.countRows()).toEqual(NO_ROWS);
  });

  test("as many guests as the listing's limit are accepted", async () => {
    const owner = await makeListingOwner(services, { maxPeopleInListing: 2 });
    expect((await owner.create(owner.body)).form.numberOfGuests).toBe(2);
  });

  test("a listing that was deactivated rejects the next create", async () => {
    const owner = await makeListingOwner(services);
    await owner.addForm();
    await updateListing(owner.listingId, "active = false");
    expect(await catchRejectedFields(owner.create(owner.body))).toEqual(["listingId"]);
  });
});

describe("the listing's rules on an update", () => {
  test("a form on an inactive listing can be updated and moved away, but no form can be moved there", async () => {
    const owner = await makeListingOwner(services);
    const second = await owner.addListing();
    const { id } = await owner.addForm();
    const { forms } = owner;
    await updateListing(owner.listingId, "active = false");
    const changed = await forms.update({ id, ...fixedStay(owner.listingId, { numberOfGuests: 5 }) });
    expect(changed.numberOfGuests).toBe(5);
    expect((await forms.update({ id, ...fixedStay(second.id) })).listingId).toBe(second.id);
    expect(await catchRejectedFields(forms.update({ id, ...fixedStay(owner.listingId) }))).toEqual([
      "listingId",
    ]);
    expect((await forms.get({ id })).listingId).toBe(second.id);
    await updateListing(owner.listingId, "active = true");
    expect((await forms.update({ id, ...fixedStay(owner.listingId) })).listingId).toBe(owner.listingId);
    expect((await owner.create(owner.body)).replayed).toBe(false);
  });

  test("the guest limit of the target listing applies, with or without a move", async () => {
    const owner = await makeListingOwner(services, { maxPeopleInListing: 4 });
    const small = await owner.addListing({ maxPeopleInListing: 2, active: false });
    const form = await owner.addForm();
    const { forms } = owner;
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
    const second = await owner.addListing();
    const form = await owner.addForm();
    await asOperator(services).forms.setStatus({ id: form.id, status: "ACCEPTED" });
    const { forms } = owner;
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
    const { forms } = owner;
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

    const bare = await owner.addForm();
    expect(await stored(bare.id)).toBeNull();
    await forms.update({ id: bare.id, ...fixedStay(owner.listingId, { guestEmail: "late@example.com" }) });
    expect(await stored(bare.id)).toBe("late@example.com");
    expect((await owner.countRows()).notifications).toBe(1);
  });
});

describe("the audit trail", () => {
  test("has an entry per write with actor and correlation id, and none for replays and errors", async () => {
    const owner = await makeListingOwner(services);
    const second = await owner.addListing();
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

    const entries = (await asOperator(services).audit.trail({ subjectId: id })).toReversed();
    expect(
      entries.map((entry) => [entry.actor, entry.actorId, entry.action, entry.correlationId, entry.details]),
    ).toEqual([
      ["key", key.id, "form.created", ids[0], { listingId: owner.listingId }],
      ["key", key.id, "form.updated", ids[1], { listingId: second.id, movedFrom: owner.listingId }],
      ["user", owner.userId, "form.updated", ids[2], { listingId: second.id }],
      [
        "operator",
        null,
        "form.status_set",
        ids[3],
        expect.objectContaining({ from: "SENT", to: "ACCEPTED" }),
      ],
    ]);
    expect((await asOperator(services).audit.trace(withoutEntry)).entries).toEqual([]);
  });

  test("has an entry for every write of the operator", async () => {
    const operator = (correlationId: string) => asOperator(services, { correlationId });
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
    const { entries } = await asOperator(services).audit.trace({ correlationId: id });
    expect(entries.map(({ actor, action }) => `${actor} ${action}`)).toEqual([
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
    const second = await owner.addListing();
    const { form } = await owner.create(owner.body);
    const { forms } = owner;
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
      retryAfter: expect.any(Number),
    });
    expect(await owner.countRows()).toEqual(NO_ROWS);
    const { form } = await owner.create(owner.body);
    const update = caller.forms.update({ id: form.id, ...fixedStay(owner.listingId, { numberOfGuests: 4 }) });
    expect(await catchServiceError(update)).toMatchObject({ status: 503, retryAfter: expect.any(Number) });
    expect(await owner.forms.get({ id: form.id })).toEqual(form);
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
    expect(await late).toMatchObject({ status: 503, retryAfter: expect.any(Number) });
    expect(await owner.forms.get({ id: form.id })).toEqual(form);
  });
});

test("a create, and a replay with a new Idempotency-Key, each take two round trips to Postgres, and an update three", async () => {
  let roundTrips = 0;
  const forward: Forward = (client, server) => {
    let isAnswered = true;
    client.on("data", (chunk) => {
      if (isAnswered) roundTrips++;
      isAnswered = false;
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      isAnswered = true;
      client.write(chunk);
    });
  };
  const { url } = await TcpProxy.start(services.db.url, { forward });
  const near = await openTestServices({ DATABASE_URL: url, DATABASE_POOL_SIZE: "1", APP_SECRETS: "" });
  const owner = await makeListingOwner(near);
  const { form } = await owner.create(owner.body);
  const forms = asUser(near, owner.userId).forms;
  const writes = {
    create: (n: number) => owner.create({ ...owner.body, numberOfGuests: n }, `create ${n}`),
    replay: (n: number) => owner.create(owner.body, `replay ${n}`),
    update: (n: number) =>
      forms.update({ id: form.id, ...fixedStay(owner.listingId, { numberOfGuests: n }) }),
  };
  for (const [name, write] of Object.entries(writes)) {
    // The first write prepares its statements.
    await write(3);
    roundTrips = 0;
    await write(4);
    expect([name, roundTrips]).toEqual([name, name === "update" ? 3 : 2]);
  }
});

test("a form whose address no secret can decrypt can be updated, and keeps that address until it gets another", async () => {
  const owner = await makeListingOwner(services);
  const { form } = await owner.create(owner.body);
  const stored = async () =>
    (await services.db.pool.query("SELECT guest_email FROM forms WHERE id = $1", [form.id])).rows[0]
      .guest_email;
  const unreadable = Buffer.alloc(50, 1);
  await services.db.pool.query("UPDATE forms SET guest_email = $2 WHERE id = $1", [form.id, unreadable]);
  const { forms } = owner;
  const body = fixedStay(owner.listingId, { numberOfGuests: 4 });
  expect((await forms.update({ id: form.id, ...body })).numberOfGuests).toBe(4);
  expect(await stored()).toEqual(unreadable);
  await forms.update({ id: form.id, ...body, guestEmail: "new@example.com" });
  expect(await stored()).not.toEqual(unreadable);
});
