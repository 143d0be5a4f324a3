import { beforeEach, describe, expect, test } from "vitest";
import { MailRejected } from "../../server/emails/mailer.js";
import { attempt, type Channel } from "../../server/outbox/attempt.js";
import { openTestCore } from "../support/core.js";
import { emailQueue } from "../support/outbox-queue.js";
import { catchErrorCode, catchRejectedFields, createFormWithOutcome } from "../support/factories.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "unmistakable.guest@mail.example.com";
const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";

const { services, owner, operator, sql, listUnsent } = await openTestCore();

beforeEach(() => sql("TRUNCATE forms, audit_entries CASCADE"));

const actionsOf = async (subjectId: string) => (await operator.audit.trail({ subjectId })).map(({ action }) => action);
const firstUnsent = async () => (await listUnsent())[0];
// Forms are created before the worker starts, so that it need not poll again.
const create = async () => {
  const body = fixedStay(owner.listingId, { guestEmail: ADDRESS });
  const options = { correlationId: CORRELATION_ID };
  return (await createFormWithOutcome(services, owner.principal, body, options)).form;
};
const startSending = async ({ url }: { url: string }) => startTestWorker(await openServicesWithMail(services, url));

test.each([
  ["that was rejected temporarily is logged as a warning and retried", 451, 1, "retrying"],
  ["that was rejected permanently is logged as an error and given up", 550, 1, "failed"],
  ["that was the last one is logged as an error and given up", 451, 25, "failed"],
])(
  "a failed attempt %s, in one line with the correlation id of the create and no stack",
  async (_, code, attempts, state) => {
    const mailServer = await openMailServer();
    mailServer.rcptErrors.push({ code, text: `<${ADDRESS}>: mailbox busy` });
    const { id: formId, listingId, checkInDate } = await create();
    await sql("UPDATE emails SET attempts = $1", attempts - 1);
    const lines = await startSending(mailServer);
    await expect.poll(async () => (await firstUnsent())?.state).toBe(state);
    const unsent = await firstUnsent();
    const runAt = state === "failed" ? null : expect.any(String);
    const lastError = expect.stringContaining("mailbox busy");
    const about = { formId, listingId, checkInDate, endpointId: null };
    const [id, lastAttemptAt] = [expect.any(String), expect.any(String)];
    expect(unsent).toEqual({ id, ...about, state, attempts, lastError, lastAttemptAt, runAt, sentAt: null });
    const reason = expect.stringMatching(/^[^\n]*mailbox busy[^\n]*$/);
    const facts = { emailId: unsent?.id, formId, correlationId: CORRELATION_ID, attempts, reason };
    const [level, message] =
      state === "failed" ? ["error", "notification given up"] : ["warn", "notification not sent"];
    expect(lines).toEqual([{ facts, level, message }]);
    expect(JSON.stringify([unsent, lines])).not.toMatch(/unmistakable|mail\.example/);
    expect([mailServer.rcptCount, mailServer.received]).toEqual([1, []]);
    expect(await operator.audit.trace({ correlationId: CORRELATION_ID })).toMatchObject({
      entries: [{ action: "form.created", subjectId: formId }],
    });
  },
);

describe("emails.retry", () => {
  const { retry } = operator.emails;

  test("makes a running worker send a failed notification, with the same Message-ID at every attempt, and is audited", async () => {
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
  const addForm = async () => (await owner.addForm({ guestEmail: ADDRESS })).id;
  const [over, waiting, ...sendable] = [await addForm(), await addForm(), await addForm(), await addForm()];
  await sql("UPDATE emails SET state = 'failed', attempts = 25, next_attempt_at = NULL WHERE form_id <> $1", waiting);
  await sql("UPDATE forms SET check_out_date = now() - interval '1 ms' WHERE id = $1", over);
  await sql(
    `INSERT INTO emails (kind, form_id, state, next_attempt_at, correlation_id, endpoint_id, event_id)
     SELECT 'webhook', form_id, state, NULL, correlation_id, gen_random_uuid(), gen_random_uuid() FROM emails`,
  );
  // More than a batch, about a webhook endpoint.
  await sql(
    `INSERT INTO emails (kind, state, next_attempt_at, check_in_date, correlation_id, endpoint_id)
     SELECT 'webhook.disabled', 'failed', NULL, '-infinity', gen_random_uuid(), gen_random_uuid()
     FROM generate_series(1, 600)`,
  );
  const { retryFailed } = operator.emails;
  const calls = await Promise.all([retryFailed(), retryFailed(), retryFailed()]);
  expect(calls.reduce((sum, { retried }) => sum + retried, 0)).toBe(602);
  const states = await sql(
    "SELECT state, attempts, event_id IS NULL AS email, count(*)::int FROM emails GROUP BY 1, 2, 3 ORDER BY 3, 1",
  );
  expect(states).toEqual([
    { state: "waiting", attempts: 0, email: false, count: 1 },
    { state: "failed", attempts: 0, email: false, count: 3 },
    { state: "waiting", attempts: 0, email: true, count: 603 },
    { state: "failed", attempts: 25, email: true, count: 1 },
  ]);
  for (const id of sendable) expect(await actionsOf(id)).toEqual(["email.retried", "form.created"]);
  for (const id of [over, waiting]) expect(await actionsOf(id)).toEqual(["form.created"]);
  const entries = await sql(
    "SELECT count(DISTINCT details->>'emailId')::int AS count FROM audit_entries WHERE action = 'notification.retried'",
  );
  expect(entries).toEqual([{ count: 602 }]);
  expect(await retryFailed()).toEqual({ retried: 0 });
});

describe("emails.send", () => {
  const { send } = operator.emails;

  test("sends a sent invitation once more, however often it is called before, with another Message-ID, and is audited", async () => {
    const { id: formId } = await create();
    await sql("UPDATE emails SET state = 'sent', sent_at = now(), next_attempt_at = NULL");
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
    expect((await operator.emails.list({ formId })).items).toEqual([first, sent]);
    const trail = await operator.audit.trail({ subjectId: formId });
    const entry = { action: "email.requested", actor: "operator", details: { emailId: again?.id } };
    expect(trail).toContainEqual(expect.objectContaining(entry));
  });

  test("has another Message-ID also if the first notification is past its retention", async () => {
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
    "makes a notification that is %s due now instead of adding one",
    async (state) => {
      const { id: formId } = await create();
      await sql(`UPDATE emails SET state = '${state}', attempts = 3, next_attempt_at = NULL`);
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
    await sql("UPDATE emails SET state = 'running'");
    expect(await send({ formId })).toEqual(await firstUnsent());
    expect(await actionsOf(formId)).toEqual(["form.created"]);
  });

  test("is rejected for a form that is unknown, has no address, or needs no invitation, and adds nothing", async () => {
    const { id } = await create();
    const { form: bare } = await owner.create(fixedStay(owner.listingId, { numberOfGuests: 7 }));
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

describe("an outcome", () => {
  const FAULT = Object.assign(new Error("invalid byte sequence"), { code: "22021" });
  const OUTAGE = Object.assign(new Error("shutting down"), { code: "57P01" });
  const UNRECORDED = "the outcome could not be recorded";
  const GIVEN_UP = "cannot record the outcome of a notification";

  type Send = (record: (name: string) => Promise<unknown>) => ReturnType<Channel["send"]>;
  const sent: Send = async (record) => () => record("sent");
  const failed = (error: Error) => () => Promise.reject(error);

  /** Makes an attempt whose first records fail with `failures`. Returns the records and the logged errors. */
  async function attemptWith(send: Send, failures: Error[]) {
    const records: unknown[][] = [];
    const errors: string[] = [];
    const record = async (...values: unknown[]) => {
      records.push(values);
      const failure = failures.shift();
      if (failure) throw failure;
    };
    const channel: Channel = {
      name: "notification",
      concurrency: 1,
      maxAttempts: 25,
      claim: async () => [],
      send: () => send(record),
      recordFailure: (_row, { reason, isFinal }) => record("failed", reason, isFinal),
    };
    const log = { info() {}, warn() {}, error: (_facts: object, message: string) => void errors.push(message) };
    const claimed = { emailId: "7", formId: "form", correlationId: "3", attempts: 1 };
    await attempt(channel, claimed, { log, signal: new AbortController().signal });
    return { records, errors };
  }

  test.each([
    ["temporarily", false],
    ["permanently", true],
  ])("of a message rejected %s that the database rejects is recorded with a fixed reason", async (_, isFinal) => {
    const rejected = failed(new MailRejected("bad \0 reply", isFinal));
    const { records, errors } = await attemptWith(rejected, [FAULT]);
    expect(records).toEqual([
      ["failed", "bad \0 reply", isFinal],
      ["failed", UNRECORDED, isFinal],
    ]);
    expect(errors).toEqual([...(isFinal ? ["notification given up"] : []), GIVEN_UP]);
  });

  test("of a message that was sent and cannot be recorded makes no second message", async () => {
    const { records, errors } = await attemptWith(sent, [FAULT]);
    expect(records).toEqual([["sent"], ["failed", UNRECORDED, true]]);
    expect(errors).toEqual([GIVEN_UP]);
  });

  test("is recorded after a database outage", async () => {
    const { records, errors } = await attemptWith(sent, [OUTAGE, OUTAGE]);
    expect(records).toEqual(Array(3).fill(["sent"]));
    expect(errors).toEqual([`${GIVEN_UP} yet`]);
  });
});

describe("the queue", () => {
  const MAX_CRASHES = 5;
  /** The queues of a worker that crashes and of one that keeps running. */
  const crashing = emailQueue(services, "crashing");
  const surviving = emailQueue(services, "surviving");

  beforeEach(() => owner.create(owner.body));

  const makeDue = () => sql("UPDATE emails SET next_attempt_at = now() - interval '1 second'");

  /** Claims the notification with a worker that then becomes stale. Returns what the other worker releases. */
  async function crashOnce() {
    await makeDue();
    const claimed = await crashing.claim();
    expect(claimed).toBeDefined();
    await sql("UPDATE emails SET heartbeat_at = now() - interval '1 minute'");
    const released = await surviving.releaseStale();
    expect(released.map(({ emailId }) => emailId)).toEqual([claimed?.emailId]);
    return released[0];
  }

  test("a notification that crashes its worker five times in a row is given up, and listed as failed", async () => {
    for (let crashes = 1; crashes < MAX_CRASHES; crashes++) {
      expect(await crashOnce()).toMatchObject({ crashes, givenUp: null });
      const unsent = await firstUnsent();
      expect(unsent).toMatchObject({ state: "waiting", attempts: 0 });
      expect(Date.parse(unsent?.runAt ?? ""), "others go first").toBeGreaterThan(Date.now());
    }
    const reason = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;
    expect(await crashOnce()).toMatchObject({ crashes: MAX_CRASHES, givenUp: reason });
    expect(await firstUnsent()).toMatchObject({ state: "failed", attempts: 0, lastError: reason, runAt: null });
    expect(await crashing.claim()).toBeUndefined();
  });

  test("a recorded failure resets the count of crashes, and crashes are not counted as attempts", async () => {
    for (let round = 1; round <= 3; round++) {
      for (let crashes = 1; crashes < MAX_CRASHES; crashes++)
        expect(await crashOnce()).toMatchObject({ givenUp: null });
      await makeDue();
      const claimed = (await surviving.claim()) ?? expect.fail("nothing to claim");
      expect(claimed.attempts).toBe(round);
      await surviving.markFailed(claimed, "busy", false);
      expect(await firstUnsent()).toMatchObject({ state: "retrying", attempts: round, lastError: "busy" });
    }
  });

  test("temporary failures are retried for four days", async () => {
    const PAUSE = "SELECT extract(epoch FROM next_attempt_at - now())::float8 AS seconds FROM emails";
    let seconds = 0;
    for (let isLast = false; !isLast; ) {
      await makeDue();
      const claimed = (await surviving.claim()) ?? expect.fail("nothing to claim");
      isLast = surviving.isLastAttempt(claimed);
      await surviving.markFailed(claimed, "busy", isLast);
      seconds += (await sql(PAUSE))[0].seconds ?? 0;
    }
    expect(seconds / 86_400).toBeCloseTo(4, 1);
  });
});
