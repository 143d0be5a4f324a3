import { beforeEach, describe, expect, test, vi } from "vitest";
import { attempt, type Channel } from "../../server/outbox/attempt.js";
import type { Claimed } from "../../server/outbox/claim.js";
import { createRecorder, type Outcome } from "../../server/outbox/record.js";
import { openTestCore } from "../support/core.js";
import { createFormWithOutcome } from "../support/factories.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";

const ADDRESS = "unmistakable.guest@mail.example.com";
const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";

const { services, owner, operator, sql, listUnsent } = await openTestCore();

beforeEach(() => sql("TRUNCATE forms, audit_entries CASCADE"));

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
    const messageId = `<form-${formId}@example.com>`;
    const ending = { lastError, lastAttemptAt, runAt, sentAt: null, messageId, reply: null };
    expect(unsent).toEqual({ id, ...about, state, attempts, ...ending });
    const reason = expect.stringMatching(/^[^\n]*mailbox busy[^\n]*$/);
    const ids = { emailId: unsent?.id, formId, correlationId: CORRELATION_ID, messageId };
    const facts = { channel: "emails", ...ids, attempts, reason };
    const [level, message] = state === "failed" ? ["error", "given up"] : ["warn", "not sent"];
    expect(lines).toEqual([{ facts, level, message }]);
    expect(JSON.stringify([unsent, lines])).not.toMatch(/unmistakable|mail\.example/);
    expect([mailServer.rcptCount, mailServer.received]).toEqual([1, []]);
    expect(await operator.audit.trace({ correlationId: CORRELATION_ID })).toMatchObject({
      entries: [{ action: "form.created", subjectId: formId }],
    });
  },
);

describe("an outcome", () => {
  const FAULT = Object.assign(new Error("invalid byte sequence"), { code: "22021" });
  const OUTAGE = Object.assign(new Error("shutting down"), { code: "57P01" });
  const UNRECORDED = "the outcome could not be recorded";
  const GIVEN_UP = "cannot record an outcome";

  /** Records outcomes while the first records fail with `failures`. Returns the recorded batches and the logged errors. */
  async function recordWith(outcomes: Outcome[], failures: Error[]) {
    const batches: Outcome[][] = [];
    const errors: string[] = [];
    const log = { info() {}, warn() {}, error: (_facts: object, message: string) => void errors.push(message) };
    const record = createRecorder<Outcome>({
      channel: "emails",
      async record(batch) {
        batches.push(batch);
        const failure = failures.shift();
        if (failure) throw failure;
      },
      log,
      signal: new AbortController().signal,
    });
    await Promise.all(outcomes.map(record));
    return { batches, errors };
  }

  const sent = (id: string): Outcome => ({ id, state: "sent", reason: null });

  test.each(["retrying", "failed"])(
    "of a message that is %s, which the database rejects, is recorded with a fixed reason",
    async (state) => {
      const rejected = { id: "7", state, reason: "bad \0 reply" };
      const { batches, errors } = await recordWith([rejected], [FAULT]);
      expect(batches).toEqual([[rejected], [{ id: "7", state, reason: UNRECORDED }]]);
      expect(errors).toEqual([GIVEN_UP]);
    },
  );

  test("of a message that was sent and cannot be recorded makes no second message", async () => {
    const { batches, errors } = await recordWith([sent("7")], [FAULT]);
    expect(batches).toEqual([[sent("7")], [{ id: "7", state: "failed", reason: UNRECORDED }]]);
    expect(errors).toEqual([GIVEN_UP]);
  });

  test("that the database rejects even with the fixed reason is given up after one more try", async () => {
    const { batches, errors } = await recordWith([sent("7")], [FAULT, FAULT]);
    expect(batches).toHaveLength(2);
    expect(errors).toEqual([GIVEN_UP, GIVEN_UP]);
  });

  test("is recorded after a database outage", async () => {
    const { batches, errors } = await recordWith([sent("7")], [OUTAGE, OUTAGE]);
    expect(batches).toEqual(Array(3).fill([sent("7")]));
    expect(errors).toEqual(["cannot record outcomes yet"]);
  });

  test("is recorded with all others that ended meanwhile, in one statement", async () => {
    const { batches } = await recordWith(["1", "2", "3", "4"].map(sent), []);
    expect(batches).toEqual([[sent("1")], ["2", "3", "4"].map(sent)]);
  });

  test("that the database rejects costs none of the others in its batch theirs", async () => {
    const ids = ["1", "2", "3", "4", "5"];
    const kept = new Set<string>();
    const record = createRecorder<Outcome>({
      channel: "emails",
      async record(batch) {
        if (batch.some(({ reason }) => reason === "bad")) throw FAULT;
        for (const { id, reason } of batch) kept.add(`${id} ${reason}`);
      },
      log: { info() {}, warn() {}, error() {} },
      signal: new AbortController().signal,
    });
    await Promise.all(ids.map((id) => record(id === "4" ? { id, state: "retrying", reason: "bad" } : sent(id))));
    expect([...kept].sort()).toEqual(["1 null", "2 null", "3 null", `4 ${UNRECORDED}`, "5 null"]);
  });
});

test.each(["emails", "deliveries"])(
  "of %s, an attempt that fails because the database role lacks a privilege is logged as an error with what to do",
  async (channel) => {
    const error = vi.fn();
    const denied = Object.assign(new Error("permission denied for table forms"), { code: "42501" });
    const quiet: Pick<Channel, "isQuiet"> = channel === "emails" ? {} : { isQuiet: true };
    await attempt<Claimed, Outcome>(
      {
        ...{ table: "emails", concurrency: 1, maxAttempts: 5, ...quiet },
        claim: async () => [],
        send: () => Promise.reject(denied),
        toFailure: (_, failure) => failure,
        record: async () => {},
      },
      { id: "1", attempts: 1, facts: {} } as Claimed,
      { info() {}, warn() {}, error },
    );
    expect(error.mock.calls).toEqual([
      [expect.objectContaining({ advice: expect.stringMatching(/^Grant /) }), "cannot send"],
    ]);
  },
);

test("that outcomes cannot be recorded because the disk is full is logged with what to do", async () => {
  const error = vi.fn();
  const full = Object.assign(new Error("could not extend file"), { code: "53100" });
  const record = createRecorder<Outcome>({
    channel: "emails",
    record: vi.fn(async () => {}).mockRejectedValueOnce(full),
    log: { info() {}, warn() {}, error },
    signal: new AbortController().signal,
  });
  await record({ id: "1", state: "sent", reason: null });
  const advice = expect.stringMatching(/^Free or add disk space/);
  expect(error.mock.calls).toEqual([[expect.objectContaining({ advice }), "cannot record outcomes yet"]]);
});
