import { beforeEach, describe, expect, test } from "vitest";
import { expireEmails } from "../../server/emails/expiry.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields } from "../support/factories.js";
import { openMailServer, openServicesWithMail, recipientsOf, startTestWorker } from "../support/mail-server.js";
import { emailQueue, setState } from "../support/outbox-queue.js";
import { uniqueStay } from "../support/stays.js";

// What becomes of an email after the mail server has answered.

const { services, owner, operator, sql } = await openTestCore();
const { forms, listingId } = owner;

beforeEach(() => sql("TRUNCATE forms, audit_entries CASCADE"));

const ADDRESS = "an.unmistakable.guest@mail.example.com";
const SILENT = { info() {}, warn() {}, error() {} };

/** Creates a form with an invitation in this state. */
async function createInvited(state = "waiting", guestEmail = ADDRESS) {
  const stay = uniqueStay(listingId, { guestEmail });
  const { id } = await forms.create(stay);
  await sql(setState("emails", state, "form_id = $1"), id);
  const emails = async () => (await operator.emails.list({ formId: id, limit: 100 })).items;
  const [email] = await emails();
  return {
    id,
    emailId: email?.id ?? "",
    emails,
    states: async () => (await emails()).map(({ state }) => state),
    update: (change: object) => forms.update({ id, ...stay, ...change }),
    actions: async () => (await operator.audit.trail({ subjectId: id })).map(({ action }) => action),
  };
}

const countWarned = async () => {
  const { failed, bounced } = await operator.emails.count();
  return { failed, bounced };
};

const expire = () => expireEmails({ db: services.db, counts: new ActivityCounts() }, SILENT);

test("a sent email has its Message-ID and the mail server's answer, without address and link, in its log line and the lists", async () => {
  const mailServer = await openMailServer();
  const form = await createInvited();
  const [{ publicId } = { publicId: "" }] = await sql(
    'SELECT public_id AS "publicId" FROM forms WHERE id = $1',
    form.id,
  );
  mailServer.answers.push(`2.0.0 queued as 4711 for <${ADDRESS}> https://forms.example.com/${publicId}`);
  const lines = await startTestWorker(await openServicesWithMail(services, mailServer.url));
  await expect.poll(form.states).toEqual(["sent"]);
  const messageId = mailServer.received[0]?.mail.messageId;
  expect(messageId).toBe(`<form-${form.id}@example.com>`);
  const reply = expect.stringMatching(/^250 2\.0\.0 queued as 4711 for <a\*\*\*@m\*\*\*\.com> \[link\]$/);
  expect(await form.emails()).toMatchObject([{ messageId, reply, lastError: null }]);
  expect(lines).toMatchObject([{ message: "email sent", facts: { messageId, reply } }]);
  const { items } = await operator.emails.list({ state: "sent" });
  expect(items).toMatchObject([{ messageId, reply }]);
});

describe("an email that failed or bounced", () => {
  test.each(["failed", "bounced"])(
    "ends its warnings when an operator dismisses it (%s), and is not sent",
    async (state) => {
      const form = await createInvited(state);
      expect(await countWarned()).toMatchObject({ [state]: 1 });
      expect(await operator.emails.dismiss({ id: form.emailId })).toMatchObject({
        id: form.emailId,
        state: "dismissed",
      });
      expect(await countWarned()).toEqual({ failed: 0, bounced: 0 });
      expect(await form.actions()).toContain("email.dismissed");
      expect((await operator.emails.list({})).items).toEqual([]);
      expect(await operator.emails.retryFailed()).toEqual({ retried: 0 });
      expect(await catchErrorCode(operator.emails.retry({ id: form.emailId }))).toBe("RESOURCE_NOT_FOUND");
    },
  );

  test("is dismissed with all others at once, and with nothing else", async () => {
    const made = [];
    for (const state of ["failed", "bounced", "failed", "waiting", "sent", "expired"])
      made.push(await createInvited(state));
    expect(await operator.emails.dismissAll()).toEqual({ dismissed: 3 });
    const states = await Promise.all(made.map(({ states }) => states()));
    expect(states.flat()).toEqual(["dismissed", "dismissed", "dismissed", "waiting", "sent", "expired"]);
    expect(await operator.emails.dismissAll()).toEqual({ dismissed: 0 });
  });

  test.each([
    [
      "whose stay is over",
      (id: string) => sql("UPDATE forms SET check_out_date = now() - interval '1 ms' WHERE id = $1", id),
    ],
    ["whose guest has completed the form", (id: string) => operator.forms.setStatus({ id, status: "COMPLETED" })],
  ])("and %s ends its warning by itself", async (_, end) => {
    const [failed, bounced, other] = [
      await createInvited("failed"),
      await createInvited("bounced"),
      await createInvited("failed"),
    ];
    await end(failed.id);
    await end(bounced.id);
    await expire();
    expect([await failed.states(), await bounced.states(), await other.states()]).toEqual([
      ["expired"],
      ["dismissed"],
      ["failed"],
    ]);
    expect(await countWarned()).toEqual({ failed: 1, bounced: 0 });
  });

  test.each(["failed", "bounced"])("is sent again to an address that an update corrects (%s)", async (state) => {
    const form = await createInvited(state);
    await form.update({ guestEmail: "right@example.com" });
    const mailServer = await openMailServer();
    await startTestWorker(await openServicesWithMail(services, mailServer.url));
    await expect.poll(form.states).toEqual([state === "failed" ? "expired" : "dismissed", "sent"]);
    expect(recipientsOf(mailServer)).toEqual(["right@example.com"]);
    expect(await countWarned()).toEqual({ failed: 0, bounced: 0 });
  });

  test("that bounced is sent again by an operator, with another Message-ID", async () => {
    const form = await createInvited("bounced");
    const again = await operator.emails.send({ formId: form.id });
    expect(again.id).not.toBe(form.emailId);
    expect(await form.states()).toEqual(["bounced", "waiting"]);
    await expire();
    expect(await form.states()).toEqual(["dismissed", "waiting"]);
  });

  test.each(["waiting", "running", "retrying", "sent", "expired", "dismissed"])(
    "is not one that is %s: dismissing it is RESOURCE_NOT_FOUND",
    async (state) => {
      const form = await createInvited(state);
      expect(await catchErrorCode(operator.emails.dismiss({ id: form.emailId }))).toBe("RESOURCE_NOT_FOUND");
      expect(await form.states()).toEqual([state]);
    },
  );
});

describe("emails.markBounced", () => {
  const REASON = `550 5.1.1 <${ADDRESS}>: user unknown`;

  test("by Message-ID marks that email alone, with the reason, without addresses, and is audited", async () => {
    const form = await createInvited("sent");
    const again = await operator.emails.send({ formId: form.id });
    await sql(setState("emails", "sent", "form_id = $1"), form.id);
    const of = (suffix: string) => `<form-${form.id}${suffix}@any.example>`;
    const { emails } = await operator.emails.markBounced({ email: of(`-${again.id}`), reason: REASON });
    expect(emails).toMatchObject([
      { id: again.id, state: "bounced", lastError: "550 5.1.1 <a***@m***.com>: user unknown" },
    ]);
    expect(await form.states()).toEqual(["sent", "bounced"]);
    expect(await form.actions()).toContain("email.bounced");
    expect((await operator.emails.markBounced({ email: of("").slice(1, -1) })).emails).toMatchObject([
      { id: form.emailId },
    ]);
    expect(await form.states()).toEqual(["bounced", "bounced"]);
  });

  test("stores no part of the guest's address and no link to the form, wherever FORM_URL_TEMPLATE leads now", async () => {
    const form = await createInvited("sent");
    const { publicId } = await operator.forms.getAny({ id: form.id });
    const reason = `550 an.unmistakable.guest: spam link https://elsewhere.example/r/${publicId}?lang=de, queue 4Rk3f9XqZ0z1YlmNpQrStUv`;
    await operator.emails.markBounced({ email: `<form-${form.id}@example.com>`, reason });
    const [{ lastError } = { lastError: "" }] = await form.emails();
    expect(lastError).toBe(
      "550 ***: spam link https://elsewhere.example/r/[link]?lang=de, queue 4Rk3f9XqZ0z1YlmNpQrStUv",
    );
  });

  test("without a reason keeps the one of the first time, and takes none of a failure before it was sent", async () => {
    const form = await createInvited("sent");
    await sql("UPDATE emails SET last_error = '451 try again later'");
    const email = `<form-${form.id}@example.com>`;
    const mark = async (reason?: string) => {
      const { emails } = await operator.emails.markBounced({ email, ...(reason && { reason }) });
      return emails[0]?.lastError;
    };
    expect([await mark(), await mark("550 full"), await mark()]).toEqual(["it bounced", "550 full", "550 full"]);
  });

  test("by address, in any case, marks the last sent invitation to each form that has it", async () => {
    const [one, two] = [await createInvited("sent"), await createInvited("sent")];
    const others = [await createInvited("sent", "other@example.com"), await createInvited("waiting")];
    await operator.emails.send({ formId: two.id });
    await sql(setState("emails", "sent", "form_id = $1"), two.id);
    const { emails, unreadable } = await operator.emails.markBounced({ email: ADDRESS.toUpperCase() });
    expect([emails.length, unreadable]).toEqual([2, 0]);
    expect([await one.states(), await two.states()]).toEqual([["bounced"], ["sent", "bounced"]]);
    expect(await Promise.all(others.map(({ states }) => states()))).toEqual([["sent"], ["waiting"]]);
    expect(await countWarned()).toEqual({ failed: 0, bounced: 2 });
  });

  test("by the Message-ID of an email to an owner marks that email", async () => {
    const { id } = await operator.webhooks.create({ url: "https://receiver.example.com/" });
    const [{ email } = { email: "" }] = await sql(
      `INSERT INTO emails (kind, endpoint_id, tenant_id, check_in_date, correlation_id, state, next_attempt_at, ended_at)
       VALUES ('endpoint_disabled', $1, $1, now(), gen_random_uuid(), 'sent', NULL, now()) RETURNING id AS email`,
      id,
    );
    const { emails } = await operator.emails.markBounced({ email: `<endpoint-${email}@example.com>` });
    expect(emails).toMatchObject([{ id: `${email}`, endpointId: id, state: "bounced" }]);
  });

  test("finds nothing for an unknown Message-ID or address, and rejects any other text", async () => {
    const form = await createInvited("sent");
    for (const email of [
      `<form-${listingId}@example.com>`,
      "nobody@example.com",
      `<endpoint-${form.emailId}@example.com>`,
    ])
      expect(await operator.emails.markBounced({ email })).toEqual({ emails: [], unreadable: 0 });
    expect(await catchRejectedFields(operator.emails.markBounced({ email: "<4711@mail.example.com>" }))).toEqual([
      "email",
    ]);
    expect(await form.states()).toEqual(["sent"]);
  });

  test("stays bounced if a stale worker reports later that it was sent", async () => {
    const form = await createInvited();
    const queue = emailQueue(services, "worker");
    const row = (await queue.claim()) ?? expect.fail("nothing to claim");
    await sql(setState("emails", "sent", "form_id = $1"), form.id);
    await operator.emails.markBounced({ email: `<form-${form.id}@example.com>` });
    await queue.mark(row, "sent", null);
    expect(await form.states()).toEqual(["bounced"]);
  });
});

test("a look-up of a guest's address is audited with each form that it finds, and without the address", async () => {
  const [found, other] = [await createInvited(), await createInvited("waiting", "other@example.com")];
  const { forms } = await operator.people.find({ email: ADDRESS.toUpperCase() });
  expect(forms.map(({ id }) => id)).toEqual([found.id]);
  expect([await found.actions(), await other.actions()]).toEqual([
    ["person.looked_up", "form.created"],
    ["form.created"],
  ]);
  await operator.people.find({ email: "nobody@example.com" });
  const entries = await sql("SELECT action, details FROM audit_entries WHERE action = 'person.looked_up'");
  expect(entries).toEqual([
    { action: "person.looked_up", details: {} },
    { action: "person.looked_up", details: {} },
  ]);
});
