import { beforeEach, describe, expect, test } from "vitest";
import { expireEmails } from "../../server/emails/expiry.js";
import { smtpMailer } from "../../server/emails/mailer.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, catchRejectedFields, createFormWithOutcome } from "../support/factories.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { emailQueue, setState } from "../support/outbox-queue.js";
import { fixedStay, uniqueStay } from "../support/stays.js";

const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";
const DAY_MS = 86_400_000;
const SILENT = { info() {}, warn() {}, error() {} };
const counts = new ActivityCounts();

const { services, owner, operator, sql, listUnsent, holdLock, waitForBlocked } = await openTestCore();

beforeEach(() => sql("TRUNCATE forms, audit_entries CASCADE"));

/** Two days that begin in `days`. */
const stayIn = (days: number) => ({
  checkInDate: new Date(Date.now() + days * DAY_MS).toISOString(),
  checkOutDate: new Date(Date.now() + (days + 2) * DAY_MS).toISOString(),
});

const bodyOf = (stay: object = {}) => uniqueStay(owner.listingId, { guestEmail: "guest@example.com", ...stay });

// Forms are created before the worker starts, so that it need not poll again.
const create = async (stay?: object): Promise<FormV1> =>
  (await createFormWithOutcome(services, owner.principal, bodyOf(stay), { correlationId: CORRELATION_ID })).form;

// The column has milliseconds: now() may be rounded up, to a time in the future.
const endStay = ({ id }: FormV1) => sql("UPDATE forms SET check_out_date = now() - interval '1 ms' WHERE id = $1", id);
const setStatus = (status: string) => (form: FormV1) => operator.forms.setStatus({ id: form.id, status, force: true });

const stateOf = async ({ id }: FormV1) => (await listUnsent()).find(({ formId }) => formId === id)?.state;
const trace = async () => (await operator.audit.trace({ correlationId: CORRELATION_ID })).entries;
const actionsOf = async (subjectId: string) => (await operator.audit.trail({ subjectId })).map(({ action }) => action);
const firstUnsent = async () => (await listUnsent())[0];
const startSending = async ({ url }: { url: string }) => startTestWorker(await openServicesWithMail(services, url));

const ENDINGS: [string, (form: FormV1) => Promise<unknown>][] = [
  ["whose stay is over", endStay],
  ["of a form that the guest has completed", setStatus("COMPLETED")],
  ["of a form with a status of a later version", setStatus("ARCHIVED")],
];

describe.each(ENDINGS)("an invitation %s", (_, end) => {
  test.each(["with", "without"])("ends as expired %s a mail server, in list, count and trace", async (mail) => {
    const mailServer = await openMailServer();
    const [ended, upcoming] = [await create(), await create()];
    await end(ended);
    const withMail = await openServicesWithMail(services, mailServer.url);
    await startTestWorker(mail === "with" ? withMail : services);
    await expect.poll(() => stateOf(ended)).toBe("expired");
    const [listed] = await listUnsent();
    expect(listed).toMatchObject({ formId: ended.id, attempts: 0, runAt: null });
    expect(await operator.emails.count()).toMatchObject({ expired: 1 });
    const details = { emailId: listed?.id };
    const entry = { action: "email.expired", actor: "system", subjectId: ended.id, details };
    expect(await trace()).toContainEqual(expect.objectContaining(entry));
    await expect.poll(() => stateOf(upcoming)).toBe(mail === "with" ? undefined : "waiting");
    expect(mailServer.received.map(({ mail: { messageId } }) => messageId)).toEqual(
      mail === "with" ? [`<form-${upcoming.id}@example.com>`] : [],
    );
  });

  test("expires when it is about to be sent, if that comes first", async () => {
    const mailServer = await openMailServer();
    const mailServices = await openServicesWithMail(services, mailServer.url);
    const form = await create();
    const queue = emailQueue(services, "worker", await smtpMailer(mailServices.settings));
    await end(form);
    await queue.attempt((await queue.claim()) ?? expect.fail("nothing to claim"));
    expect(await listUnsent()).toMatchObject([{ state: "expired", attempts: 0, runAt: null }]);
    expect((await trace()).map(({ action }) => action)).toContain("email.expired");
    expect(mailServer.rcptCount).toBe(0);
  });

  test("is not retried by an operator", async () => {
    const form = await create();
    await end(form);
    for (const state of ["waiting", "failed", "expired"]) {
      await sql(setState("emails", state));
      const [{ id } = { id: "" }] = await listUnsent();
      expect(await catchRejectedFields(operator.emails.retry({ id }))).toEqual(["id"]);
      expect(await stateOf(form)).toBe(state);
    }
  });
});

test("a create for a stay that is over enqueues no email", async () => {
  await create({ checkInDate: "1999-12-31T00:00:00Z", checkOutDate: "2000-01-02T00:00:00Z" });
  await create({ ...stayIn(-2), checkOutDate: new Date(Date.now() - 1000).toISOString() });
  const running = await create(stayIn(-1));
  expect((await listUnsent()).map(({ formId }) => formId)).toEqual([running.id]);
});

test("an expired email whose stay was moved to a later date is sent if an operator retries it", async () => {
  const form = await create();
  await endStay(form);
  await expireEmails({ ...services, counts }, SILENT);
  await owner.forms.update({ ...bodyOf(stayIn(5)), id: form.id });
  const mailServer = await openMailServer();
  await startTestWorker(await openServicesWithMail(services, mailServer.url));
  const [{ id, state } = { id: "", state: "" }] = await listUnsent();
  expect(state).toBe("expired");
  await operator.emails.retry({ id });
  await expect.poll(() => mailServer.received.length).toBe(1);
});

test("a run expires what is due in any number of batches, once, while another run does the same", async () => {
  const [over, upcoming] = [await create(), await create()];
  await endStay(over);
  const copies = `INSERT INTO forms (public_id, listing_id, fingerprint, check_out_date)
    SELECT n, listing_id, fingerprint, check_out_date
    FROM generate_series(1, 2998) n JOIN forms ON id = CASE WHEN n % 2 = 0 THEN $1::uuid ELSE $2::uuid END
    RETURNING id, public_id::int AS n`;
  const emails = `INSERT INTO emails (kind, form_id, tenant_id, correlation_id, check_in_date, state)
    SELECT 'invitation', id, $1, $1, now() + n % 7 * interval '1 day',
      CASE WHEN n % 3 = 0 THEN 'retrying' ELSE 'waiting' END::"EmailState" FROM copies`;
  await sql(`WITH copies AS (${copies}) ${emails}`, over.id, upcoming.id);
  await Promise.all([expireEmails({ ...services, counts }, SILENT), expireEmails({ ...services, counts }, SILENT)]);
  const rows = `SELECT check_out_date <= now() AS over, state, count(*)::int
    FROM emails JOIN forms ON forms.id = form_id GROUP BY 1, 2 ORDER BY 2`;
  expect(await sql(rows)).toEqual([
    { over: false, state: "waiting", count: 1000 },
    { over: false, state: "retrying", count: 500 },
    { over: true, state: "expired", count: 1500 },
  ]);
  const audited = await sql("SELECT FROM audit_entries WHERE action = 'email.expired'");
  expect(audited).toHaveLength(1500);
});

describe("emails.retry", () => {
  const { retry } = operator.emails;

  test("makes a running worker send a failed email, with the same Message-ID at every attempt, and is audited", async () => {
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push({ code: 550, text: "no such mailbox" });
    const { id: formId } = await create();
    await startSending(mailServer);
    await expect.poll(async () => (await firstUnsent())?.state).toBe("failed");
    const { id = "" } = (await firstUnsent()) ?? {};
    expect(await retry({ id })).toMatchObject({ id, formId, state: "waiting", attempts: 0 });
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received.map(({ mail }) => mail.messageId)).toEqual([`<form-${formId}@example.com>`]);
    const [last] = await operator.audit.trail({ subjectId: formId });
    const entry = { action: "email.retried", actor: "operator", details: { emailId: id } };
    expect(last).toMatchObject(entry);
    expect(await catchErrorCode(retry({ id }))).toBe("RESOURCE_NOT_FOUND");
  });

  test("changes nothing while an attempt is running, even the last one", async () => {
    const mailServer = await openMailServer();
    mailServer.holdRcpt();
    const { id: formId } = await create();
    await sql("UPDATE emails SET attempts = 24");
    await startSending(mailServer);
    await expect.poll(() => mailServer.rcptCount).toBe(1);
    const { id = "" } = (await firstUnsent()) ?? {};
    expect(await firstUnsent()).toMatchObject({ state: "running", attempts: 25 });
    expect(await retry({ id })).toEqual(await firstUnsent());
    expect(await actionsOf(formId)).toEqual(["form.created"]);
    mailServer.releaseRcpt();
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received).toHaveLength(1);
  });

  test("is RESOURCE_NOT_FOUND for an id that is unknown or not a positive 64-bit integer", async () => {
    for (const id of ["999999", "0", "-1", "x", "", "1e3", "9".repeat(18), "9".repeat(30)]) {
      expect([id, await catchErrorCode(retry({ id }))]).toEqual([id, "RESOURCE_NOT_FOUND"]);
    }
  });
});

test("emails.retryFailed retries each failed email once that may still be sent, audited, and no webhook delivery", async () => {
  const addForm = async () => (await owner.addForm({ guestEmail: "guest@example.com" })).id;
  const [over, waiting, ...sendable] = [await addForm(), await addForm(), await addForm(), await addForm()];
  await sql("UPDATE emails SET attempts = 25 WHERE form_id <> $1", waiting);
  await sql(setState("emails", "failed", "form_id <> $1"), waiting);
  await sql("UPDATE forms SET check_out_date = now() - interval '1 ms' WHERE id = $1", over);
  await sql(
    `INSERT INTO webhook_deliveries (form_id, state, next_attempt_at, ended_at, correlation_id, endpoint_id, event_id, event_type)
     SELECT form_id, 'failed', NULL, now(), correlation_id, gen_random_uuid(), gen_random_uuid(), 'form.created' FROM emails`,
  );
  // More than a batch, about a webhook endpoint.
  await sql(
    `INSERT INTO emails (kind, state, next_attempt_at, ended_at, tenant_id, check_in_date, correlation_id, endpoint_id)
     SELECT 'endpoint_disabled', 'failed', NULL, now(), gen_random_uuid(), now(), gen_random_uuid(), gen_random_uuid()
     FROM generate_series(1, 600)`,
  );
  const { retryFailed } = operator.emails;
  const calls = await Promise.all([retryFailed(), retryFailed(), retryFailed()]);
  expect(calls.reduce((sum, { retried }) => sum + retried, 0)).toBe(602);
  expect(await sql("SELECT state, attempts, count(*)::int FROM emails GROUP BY 1, 2 ORDER BY 2")).toEqual([
    { state: "waiting", attempts: 0, count: 603 },
    { state: "failed", attempts: 25, count: 1 },
  ]);
  expect(await sql("SELECT DISTINCT state FROM webhook_deliveries")).toEqual([{ state: "failed" }]);
  for (const id of sendable) expect(await actionsOf(id)).toEqual(["email.retried", "form.created"]);
  for (const id of [over, waiting]) expect(await actionsOf(id)).toEqual(["form.created"]);
  const entries = await sql(
    "SELECT count(DISTINCT details->>'emailId')::int AS count FROM audit_entries WHERE action = 'email.retried'",
  );
  expect(entries).toEqual([{ count: 602 }]);
  expect(await retryFailed()).toEqual({ retried: 0 });
});

describe("emails.send", () => {
  const { send } = operator.emails;

  test("sends a sent invitation once more, however often it is called before, with another Message-ID, and is audited", async () => {
    const { id: formId } = await create();
    await sql(setState("emails", "sent"));
    const [first] = (await operator.emails.list({ formId })).items;
    expect(first).toMatchObject({ formId, state: "sent", runAt: null, sentAt: expect.stringMatching(/^\d{4}-.*Z$/) });
    const calls = await Promise.all(Array.from({ length: 10 }, () => send({ formId })));
    const [again] = calls;
    expect(new Set(calls.map(({ id }) => id))).toEqual(new Set([again?.id]));
    expect(again).toMatchObject({ formId, state: "waiting", attempts: 0, sentAt: null });
    const mailServer = await openMailServer();
    await startSending(mailServer);
    await expect.poll(listUnsent).toEqual([]);
    expect(mailServer.received.map(({ mail }) => mail.messageId)).toEqual([
      `<form-${formId}-${again?.id}@example.com>`,
    ]);
    const anyTime = expect.any(String);
    const sent = { ...again, state: "sent", attempts: 1, lastAttemptAt: anyTime, runAt: null, sentAt: anyTime };
    const handle = { messageId: mailServer.received[0]?.mail.messageId, reply: "250 OK: message queued" };
    expect((await operator.emails.list({ formId })).items).toEqual([first, { ...sent, ...handle }]);
    const trail = await operator.audit.trail({ subjectId: formId });
    const entry = { action: "email.requested", actor: "operator", details: { emailId: again?.id } };
    expect(trail).toContainEqual(expect.objectContaining(entry));
  });

  test("twice at the same moment adds one email: the second call waits for the first", async () => {
    const { id: formId } = await create();
    await sql(setState("emails", "sent"));
    // The audit entry is the last that a call writes.
    const lock = await holdLock("LOCK TABLE audit_entries IN EXCLUSIVE MODE");
    const first = send({ formId });
    await waitForBlocked(1);
    const second = send({ formId });
    await waitForBlocked(2);
    await lock.commit();
    expect((await second).id).toBe((await first).id);
    expect((await operator.emails.list({ formId })).items.map(({ state }) => state)).toEqual(["sent", "waiting"]);
  });

  test("has another Message-ID also if the first email is past its retention", async () => {
    const { id: formId } = await create();
    await sql("DELETE FROM emails");
    const again = await send({ formId });
    const mailServer = await openMailServer();
    await startSending(mailServer);
    await expect.poll(listUnsent).toEqual([]);
    const [{ mail } = { mail: { messageId: "" } }] = mailServer.received;
    expect(mail.messageId).toBe(`<form-${formId}-${again.id}@example.com>`);
  });

  test.each(["waiting", "retrying", "failed", "expired"])(
    "makes an email that is %s due now instead of adding one",
    async (state) => {
      const { id: formId } = await create();
      await sql("UPDATE emails SET attempts = 3");
      await sql(setState("emails", state));
      expect(await send({ formId })).toMatchObject({
        formId,
        state: "waiting",
        attempts: 0,
        runAt: expect.any(String),
      });
      expect(await operator.emails.list({ formId })).toMatchObject({ items: [{ state: "waiting" }] });
      expect(await actionsOf(formId)).toContain("email.retried");
    },
  );

  test("changes nothing while the invitation is being sent", async () => {
    const { id: formId } = await create();
    await sql(setState("emails", "running"));
    expect(await send({ formId })).toEqual(await firstUnsent());
    expect(await actionsOf(formId)).toEqual(["form.created"]);
  });

  test("is rejected for a form that is unknown, has no address, or needs no invitation, and adds nothing", async () => {
    const { id } = await create();
    const { form: bare } = await owner.create(fixedStay(owner.listingId));
    await sql("DELETE FROM emails");
    for (const unknown of ["00000000-0000-4000-8000-000000000000", "x", owner.listingId])
      expect(await catchErrorCode(send({ formId: unknown }))).toBe("RESOURCE_NOT_FOUND");
    expect(await catchRejectedFields(send({ formId: bare.id }))).toEqual(["formId"]);
    await operator.forms.setStatus({ id, status: "COMPLETED" });
    expect(await catchRejectedFields(send({ formId: id }))).toEqual(["formId"]);
    await operator.forms.setStatus({ id, status: "SENT" });
    await sql("UPDATE forms SET check_out_date = now() - interval '1 ms'");
    expect(await catchRejectedFields(send({ formId: id }))).toEqual(["formId"]);
    expect(await sql("SELECT FROM emails")).toEqual([]);
  });
});
