import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { openMailServer, openServicesWithMail, recipientsOf, startTestWorker } from "../support/mail-server.js";
import { emailQueue } from "../support/outbox-queue.js";
import { uniqueStay } from "../support/stays.js";

// An address that an update adds or changes.

const { services, owner, operator, sql } = await openTestCore();
const { listingId, forms } = owner;

beforeEach(() => sql("TRUNCATE forms CASCADE"));

const at = (name: string) => `${name}@example.com`;

/** Creates a form, with an address if `name` is given. `update` puts another one. */
async function create(name?: string, fields: Record<string, unknown> = {}) {
  const stay = uniqueStay(listingId, { ...(name && { guestEmail: at(name) }), ...fields });
  const { id } = await forms.create(stay);
  const update = (to: string, change: object = {}) => forms.update({ id, ...stay, guestEmail: at(to), ...change });
  return { id, update };
}

const statesOf = async (formId: string) =>
  (await operator.emails.list({ formId, limit: 100 })).items.map(({ state }) => state);

/** Starts a mail server, and a worker that sends to it. */
async function startSending() {
  const mailServer = await openMailServer();
  await startTestWorker(await openServicesWithMail(services, mailServer.url));
  const messageIds = () => mailServer.received.map(({ mail }) => mail.messageId);
  const received = (count: number) => expect.poll(() => mailServer.received.length).toBe(count);
  return { mailServer, messageIds, received };
}

describe("an update that adds or changes the address of a SENT form", () => {
  test("sends the invitation there, each with a Message-ID of its own; the same update again sends nothing", async () => {
    const { mailServer, messageIds, received } = await startSending();
    const { id, update } = await create();
    await update("a");
    await received(1);
    await update("a");
    await update("A");
    await update("b");
    await received(2);
    await update("a");
    await received(3);
    expect(recipientsOf(mailServer)).toEqual([at("a"), at("b"), at("a")]);
    expect(new Set(messageIds()).size).toBe(3);
    expect(messageIds()).not.toContain(`<form-${id}@example.com>`);
    await expect.poll(() => statesOf(id)).toEqual(["sent", "sent", "sent"]);
  });

  test("goes to the new address instead of the one that it was waiting to be sent to", async () => {
    const { id, update } = await create("wrong");
    await update("wrong-again");
    await update("right");
    expect(await statesOf(id)).toEqual(["waiting"]);
    const { mailServer, received } = await startSending();
    await received(1);
    await expect.poll(() => statesOf(id)).toEqual(["sent"]);
    expect(recipientsOf(mailServer)).toEqual([at("right")]);
  });

  test("of another stay or listing too, in whose turn it is sent", async () => {
    const { id } = await owner.addListing();
    const form = await create("a");
    await form.update("b", { listingId: id, checkInDate: "2031-01-01T00:00:00.000Z", numberOfGuests: 3 });
    const rows = await sql(
      "SELECT check_in_date::text LIKE '2031-01-01%' AS moved, state FROM emails WHERE form_id = $1",
      form.id,
    );
    expect(rows).toEqual([{ moved: true, state: "waiting" }]);
  });

  test("ends an invitation that had failed, and sends one that has not", async () => {
    const { id, update } = await create("wrong");
    await sql("UPDATE emails SET state = 'failed', next_attempt_at = NULL, ended_at = now() WHERE form_id = $1", id);
    await update("right");
    expect(await statesOf(id)).toEqual(["expired", "waiting"]);
    const [failed] = (await operator.emails.list({ formId: id })).items;
    await expect(operator.emails.retry({ id: failed?.id ?? "" })).rejects.toThrow("not valid");
    expect(await operator.emails.retryFailed()).toEqual({ retried: 0 });
    expect(await operator.emails.send({ formId: id })).toMatchObject({ state: "waiting" });
    expect(await statesOf(id)).toEqual(["expired", "waiting"]);
  });

  test("sends at most five more; then the address is stored, and the operator sends it", async () => {
    const { mailServer, received } = await startSending();
    const { id, update } = await create("a0");
    await received(1);
    for (let number = 1; number <= 5; number++) {
      await update(`a${number}`);
      await received(1 + number);
    }
    await expect.poll(() => statesOf(id)).toEqual(Array(6).fill("sent"));
    await update("a6");
    await update("a7");
    expect(await statesOf(id)).toEqual(Array(6).fill("sent"));
    await operator.emails.send({ formId: id });
    await received(7);
    expect(recipientsOf(mailServer)).toEqual([0, 1, 2, 3, 4, 5, 7].map((number) => at(`a${number}`)));
  });

  test("counts those only that were sent in addition: one that waits goes to any further address", async () => {
    const { id, update } = await create("a0");
    for (let number = 1; number <= 9; number++) await update(`a${number}`);
    expect(await statesOf(id)).toEqual(["waiting"]);
    const { mailServer, received } = await startSending();
    await received(1);
    expect(recipientsOf(mailServer)).toEqual([at("a9")]);
    expect(await sql("SELECT later_invitations FROM forms WHERE id = $1", id)).toEqual([{ later_invitations: 0 }]);
  });
});

test.each([
  ["whose stay is over", { checkInDate: "2020-01-01T15:00:00Z", checkOutDate: "2020-01-03T10:00:00Z" }, "SENT"],
  ["that is past SENT", {}, "COMPLETED"],
])("an update of a form %s stores the address and sends nothing", async (_, stay, status) => {
  const { id, update } = await create(undefined, stay);
  await operator.forms.setStatus({ id, status });
  await update("a");
  expect(await statesOf(id)).toEqual([]);
  expect((await operator.forms.getAny({ id })).hasGuestEmail).toBe(true);
});

test("an update without an address, or with the stored one in another case, adds no invitation", async () => {
  const { id, update } = await create("a");
  await sql("UPDATE emails SET state = 'sent', next_attempt_at = NULL, ended_at = now() WHERE form_id = $1", id);
  await update("A");
  await update("a", { guestEmail: undefined, numberOfGuests: 7 });
  expect(await statesOf(id)).toEqual(["sent"]);
});

describe("an attempt that is running while the address changes counts as sent to the old one", () => {
  const ENDINGS = [
    ["is accepted", "sent", ["sent", "waiting"]],
    ["fails", "retrying", ["retrying", "waiting"]],
    ["fails for good", "failed", ["failed", "waiting"]],
  ] as const;
  test.each(ENDINGS)("whether it %s, and is not made again", async (_, outcome, states) => {
    const { id, update } = await create("old");
    const queue = emailQueue(services, randomUUID());
    const running = await queue.claim();
    if (!running) throw new Error("nothing to claim");
    await update("new");
    expect(await statesOf(id)).toEqual(["running", "waiting"]);
    await queue.mark(running, outcome, outcome === "sent" ? null : "busy");
    expect(await statesOf(id)).toEqual(states);
    await sql("UPDATE emails SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL");
    const { mailServer, received } = await startSending();
    await received(1);
    await expect.poll(() => statesOf(id)).toEqual([outcome === "sent" ? "sent" : "expired", "sent"]);
    expect(recipientsOf(mailServer)).toEqual([at("new")]);
    await operator.emails.retryFailed();
    expect(await statesOf(id)).toEqual([outcome === "sent" ? "sent" : "expired", "sent"]);
  });

  test("or whether its worker is killed", async () => {
    const { id, update } = await create("old");
    const queue = emailQueue(services, randomUUID());
    await queue.claim();
    await update("new");
    await sql("UPDATE emails SET heartbeat_at = now() - interval '1 hour' WHERE state = 'running'");
    await queue.releaseStale();
    const { mailServer, received } = await startSending();
    await received(1);
    await expect.poll(() => statesOf(id)).toEqual(["expired", "sent"]);
    expect(recipientsOf(mailServer)).toEqual([at("new")]);
  });

  test("in any order of a claim and an update at the same moment: the new address gets one, the old one at most one", async () => {
    const mailServer = await openMailServer();
    const withMail = await openServicesWithMail(services, mailServer.url);
    const created = await Promise.all(Array.from({ length: 40 }, (_, index) => create(`old${index}`)));
    await Promise.all([startTestWorker(withMail), ...created.map(({ update }, index) => update(`new${index}`))]);
    const isDone = async () => (await sql("SELECT FROM emails WHERE ended_at IS NULL")).length;
    await expect.poll(isDone).toBe(0);
    const recipients = recipientsOf(mailServer);
    for (const index of created.keys()) {
      expect(
        recipients.filter((to) => to === at(`new${index}`)),
        `new${index}`,
      ).toHaveLength(1);
      expect(recipients.filter((to) => to === at(`old${index}`)).length).toBeLessThanOrEqual(1);
    }
  });
});

test("an update while the guest completes the form leaves no invitation waiting", async () => {
  const { id, update } = await create("a");
  await Promise.all([update("b"), operator.forms.setStatus({ id, status: "COMPLETED" })]);
  const { mailServer } = await startSending();
  await expect.poll(() => statesOf(id)).toEqual(["expired"]);
  expect(recipientsOf(mailServer)).toEqual([]);
});
