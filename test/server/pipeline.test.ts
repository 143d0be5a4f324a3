import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createCaller } from "../../server/caller.js";
import { Unavailable } from "../../server/database/failures.js";
import { open } from "../../server/encryption.js";
import { openTestCore } from "../support/core.js";
import { asOperator, catchRejectedFields, catchServiceError, openTestServices } from "../support/factories.js";
import { makeListingOwner, NO_ROWS } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";
import { type Forward, TcpProxy } from "../support/tcp-proxy.js";

const { services, operator, sql, makeKey, asUser, asKey, holdLock, waitForBlocked, makeOwner } = await openTestCore();

const setActive = (listingId: string, active: boolean) =>
  sql("UPDATE listings SET active = $2 WHERE id = $1", listingId, active);

describe("the listing's rules on an update", () => {
  test("a form on an inactive listing can be updated and moved away, but no form can be moved there", async () => {
    const owner = await makeOwner();
    const second = await owner.addListing();
    const { id } = await owner.addForm();
    const { forms } = owner;
    await setActive(owner.listingId, false);
    const changed = await forms.update({ id, ...fixedStay(owner.listingId, { numberOfGuests: 5 }) });
    expect(changed.numberOfGuests).toBe(5);
    const moveTo = (listingId: string) => forms.update({ id, ...fixedStay(listingId) });
    expect((await moveTo(second.id)).listingId).toBe(second.id);
    expect(await catchRejectedFields(moveTo(owner.listingId))).toEqual(["listingId"]);
    expect((await forms.get({ id })).listingId).toBe(second.id);
    await setActive(owner.listingId, true);
    expect((await moveTo(owner.listingId)).listingId).toBe(owner.listingId);
    expect((await owner.create(owner.body)).replayed).toBe(false);
  });

  test("the guest limit of the target listing applies, with or without a move", async () => {
    const owner = await makeOwner({ maxPeopleInListing: 4 });
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
    const owner = await makeOwner();
    const second = await owner.addListing();
    const form = await owner.addForm();
    await operator.forms.setStatus({ id: form.id, status: "ACCEPTED" });
    const { forms } = owner;
    const body = fixedStay(second.id, { numberOfGuests: 7 });
    const updated = await forms.update({ id: form.id, ...body });
    expect(updated).toEqual({ ...form, ...body, status: "ACCEPTED", updatedAt: updated.updatedAt });
    expect(Date.parse(updated.updatedAt)).toBeGreaterThan(Date.parse(form.updatedAt));
    expect(await forms.update({ id: form.id, ...body })).toEqual(updated);
    expect(await forms.get({ id: form.id })).toEqual(updated);
  });

  test("keeps the stored address if the body has none, replaces it otherwise, and invites the guest at a new one alone", async () => {
    const owner = await makeOwner();
    const { form } = await owner.create(owner.body);
    const { forms } = owner;
    const stored = async (id: string) => {
      const row = await services.db.prisma.form.findUniqueOrThrow({ where: { id } });
      return row.guestEmail && open(services.keyring.email, row.guestEmail, id);
    };
    const emails = async () => (await operator.emails.list({ formId: form.id })).items.map(({ id }) => id);
    const invited = await emails();
    expect(await stored(form.id)).toBe("guest@example.com");
    for (const [guestEmail, kept] of [
      [undefined, "guest@example.com"],
      [null, "guest@example.com"],
      [" New.Guest@EXAMPLE.com", "New.Guest@example.com"],
      [undefined, "New.Guest@example.com"],
    ] as const) {
      await forms.update({ id: form.id, ...fixedStay(owner.listingId), guestEmail });
      expect(await stored(form.id)).toBe(kept);
      // The invitation to the first address has not been sent: that to another address takes its place.
      if (kept === "guest@example.com") expect(await emails()).toEqual(invited);
      else expect(await emails()).not.toEqual(invited);
      expect((await owner.countRows()).emails).toBe(1);
    }

    const bare = await owner.addForm();
    expect(await stored(bare.id)).toBeNull();
    await forms.update({ id: bare.id, ...fixedStay(owner.listingId, { guestEmail: "late@example.com" }) });
    expect(await stored(bare.id)).toBe("late@example.com");
    expect((await owner.countRows()).emails).toBe(2);
  });
});

describe("the audit trail", () => {
  test("has an entry per write with actor and correlation id, and none for replays, errors and updates that change nothing", async () => {
    const owner = await makeOwner();
    const second = await owner.addListing();
    const key = await makeKey(owner.userId);
    const ids = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    const call = (index: number) => ({ correlationId: ids[index] ?? "" });
    const body = { ...owner.body, guestEmail: "audited@example.com" };

    const { id } = await asKey(key, call(0)).forms.create(body);
    await asKey(key, call(1)).forms.update({ id, ...body, listingId: second.id });
    const changed = { id, ...body, listingId: second.id, numberOfGuests: 5 };
    await asUser(owner.userId, call(2)).forms.update(changed);
    await asOperator(services, call(3)).forms.setStatus({ id, status: "ACCEPTED" });
    const withoutEntry = { correlationId: randomUUID() };
    await asUser(owner.userId, withoutEntry).forms.create(body);
    const failing = asUser(owner.userId, withoutEntry).forms;
    await failing.update(changed);
    await catchServiceError(failing.update({ id, ...body, listingId: randomUUID() }));
    await catchServiceError(failing.update({ id, ...body, numberOfGuests: 0 }));

    const entries = (await operator.audit.trail({ subjectId: id })).toReversed();
    const found = entries.map(({ actor, actorId, action, correlationId, details }) => {
      return [actor, actorId, action, correlationId, details];
    });
    const change = expect.objectContaining({ from: "SENT", to: "ACCEPTED" });
    const moved = { listingId: second.id };
    expect(found).toEqual([
      ["key", key.id, "form.created", ids[0], { listingId: owner.listingId }],
      ["key", key.id, "form.updated", ids[1], { ...moved, movedFrom: owner.listingId, fields: ["listingId"] }],
      ["user", owner.userId, "form.updated", ids[2], { ...moved, fields: ["numberOfGuests"] }],
      ["operator", null, "form.status_set", ids[3], change],
    ]);
    expect((await operator.audit.trace(withoutEntry)).entries).toEqual([]);
  });

  test("has an entry for every write of the operator", async () => {
    const correlationId = randomUUID();
    const { users, members, keys } = asOperator(services, { correlationId });
    const { listingId } = await makeOwner();
    const email = "audited.user@example.com";
    const { id: userId } = await users.create({ email });
    await members.set({ listingId, userId, role: "WRITER" });
    await members.remove({ listingId, userId });
    const { id } = await keys.issue({ userId, mode: "READ_ONLY" });
    await keys.rotate({ id });
    await keys.revoke({ id });
    await keys.revoke({ id });
    await catchServiceError(users.create({ email }));
    const { entries } = await operator.audit.trace({ correlationId });
    expect(entries.map(({ actor, action }) => `${actor} ${action}`)).toEqual([
      "operator user.created",
      "operator member.set",
      "operator member.removed",
      "operator key.issued",
      "operator key.rotated",
      "operator key.revoked",
    ]);
    expect(new Set(entries.map(({ actorName }) => actorName))).toEqual(new Set([null]));
  });

  test("has the name of the operator, if known, also for a change that is sent to webhooks", async () => {
    const owner = await makeOwner();
    const { id } = await owner.addForm();
    const correlationId = randomUUID();
    const named = createCaller(services, { kind: "operator", name: "Grace H." }, { correlationId });
    await named.forms.setStatus({ id, status: "COMPLETED" });
    await asUser(owner.userId).webhooks.create({ url: "https://example.com" });
    await named.forms.setStatus({ id, status: "ACCEPTED" });
    await named.keys.issue({ userId: owner.userId, mode: "READ_ONLY" });
    const { entries, deliveries } = await operator.audit.trace({ correlationId });
    expect(entries.map(({ action, actorName }) => [action, actorName])).toEqual([
      ["form.status_set", "Grace H."],
      ["form.status_set", "Grace H."],
      ["key.issued", "Grace H."],
    ]);
    expect(deliveries).toHaveLength(1);
    const [last, , created] = await operator.audit.trail({ subjectId: id });
    expect([last?.actorName, created?.actorName]).toEqual(["Grace H.", null]);
  });
});

test("a write that fails at its last step rolls a create back, binds no Idempotency-Key, and does not reveal the cause", async () => {
  const owner = await makeOwner();
  await sql(`
    CREATE FUNCTION reject_email() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'on purpose'; END $$;
    CREATE TRIGGER reject_email BEFORE INSERT ON emails FOR EACH ROW EXECUTE FUNCTION reject_email()`);
  expect(await catchServiceError(owner.create(owner.body, "k"))).toEqual({
    serviceCode: "INTERNAL_ERROR",
    code: "INTERNAL_SERVER_ERROR",
    status: 500,
    message: "Internal error. Retry later; if it persists, report the correlationId.",
    errors: undefined,
    retryAfter: undefined,
  });
  expect(await owner.countRows()).toEqual(NO_ROWS);
  // Without an address no email is enqueued.
  expect((await owner.create(fixedStay(owner.listingId))).replayed).toBe(false);
  await sql("DROP FUNCTION reject_email CASCADE");
  expect((await owner.create({ ...owner.body, numberOfGuests: 3 }, "k")).replayed).toBe(false);
  expect(await owner.countRows()).toEqual({ forms: 2, creations: 2, keys: 1, emails: 1, audit: 2 });
});

test("a write is rolled back if the deadline passes while it waits for a lock", async () => {
  const owner = await makeOwner();
  const { form } = await owner.create(owner.body);
  const deadline = new AbortController();
  const lock = await holdLock("SELECT FROM listings WHERE id = $1 FOR UPDATE", [owner.listingId]);
  const caller = asUser(owner.userId, { signal: deadline.signal });
  const body = fixedStay(owner.listingId, { numberOfGuests: 4 });
  const late = catchServiceError(caller.forms.update({ id: form.id, ...body }));
  await waitForBlocked(1);
  deadline.abort(new Unavailable("too late"));
  await lock.commit();
  expect(await late).toMatchObject({ status: 503, retryAfter: expect.any(Number) });
  expect(await owner.forms.get({ id: form.id })).toEqual(form);
});

test("a create, and a replay with a new Idempotency-Key, each take two round trips to Postgres, and an update three", async () => {
  let roundTrips = 0;
  let isAnswered = true;
  const forward: Forward = (client, server) => {
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
  const owner = await makeListingOwner(await openTestServices({ DATABASE_URL: url, DATABASE_POOL_SIZE: "1" }));
  const { id } = (await owner.create(owner.body)).form;
  const stay = (n: number) => ({ ...owner.body, numberOfGuests: n });
  for (const [expected, write] of [
    [2, (n: number) => owner.create(stay(n), `create ${n}`)],
    [2, (n: number) => owner.create(owner.body, `replay ${n}`)],
    [3, (n: number) => owner.forms.update({ id, ...stay(n) })],
  ] as const) {
    // The first write prepares its statements.
    await write(3);
    roundTrips = 0;
    await write(4);
    expect(roundTrips).toBe(expected);
  }
});
