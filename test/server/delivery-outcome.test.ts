import { describe, expect, test } from "vitest";
import type { Sql } from "../../server/db.js";
import { deliver } from "../../server/notifications/deliver.js";
import { MailRejected } from "../../server/notifications/mailer.js";
import { openQueue } from "../../server/notifications/queue.js";
import type { Send } from "../../server/notifications/send.js";

const CLAIMED = { notificationId: "7", formId: "form", correlationId: null, attempts: 1 };
const FAULT = Object.assign(new Error("invalid byte sequence"), { code: "22021" });
const OUTAGE = Object.assign(new Error("shutting down"), { code: "57P01" });

/** Delivers with a queue whose first statements fail with `failures`. Returns the statements and the logged errors. */
async function deliverWith(send: Send, failures: Error[]) {
  const statements: unknown[][] = [];
  const errors: string[] = [];
  const db: Sql = {
    async query(name, _text, values) {
      statements.push([name, ...values.slice(0, 4)]);
      const failure = failures.shift();
      if (failure) throw failure;
      return [];
    },
  };
  const log = { info() {}, warn() {}, error: (_facts: object, message: string) => void errors.push(message) };
  const { signal } = new AbortController();
  await deliver(CLAIMED, { queue: openQueue(db, "worker"), send, log, signal });
  return { statements, errors };
}

const sent: Send = async () => "sent";
const failed =
  (error: Error): Send =>
  () =>
    Promise.reject(error);
const UNRECORDED = "the outcome could not be recorded";
const GIVEN_UP = "cannot record the outcome of a notification";

describe("if the database rejects an outcome", () => {
  test.each([
    ["temporarily", new MailRejected("bad \0 reply", false), false],
    ["permanently", new MailRejected("bad \0 reply", true), true],
  ])("a message rejected %s is recorded with a fixed reason instead", async (_, error, isFinal) => {
    const { statements, errors } = await deliverWith(failed(error), [FAULT]);
    expect(statements).toEqual([
      ["mark-notification-failed", "7", "worker", "bad \0 reply", isFinal],
      ["mark-notification-failed", "7", "worker", UNRECORDED, isFinal],
    ]);
    expect(errors).toEqual([...(isFinal ? ["notification given up"] : []), GIVEN_UP]);
  });

  test("a message that was sent is not sent again if its outcome cannot be recorded", async () => {
    const { statements, errors } = await deliverWith(sent, [FAULT]);
    expect(statements).toEqual([
      ["mark-notification-sent", "7"],
      ["mark-notification-failed", "7", "worker", UNRECORDED, true],
    ]);
    expect(errors).toEqual([GIVEN_UP]);
  });

  test("a second rejection is logged and not retried", async () => {
    const { statements, errors } = await deliverWith(failed(new Error("refused")), [FAULT, FAULT]);
    expect(statements).toHaveLength(2);
    expect(errors).toEqual([GIVEN_UP, GIVEN_UP]);
  });
});

test("an outcome is recorded after a database outage", async () => {
  const { statements, errors } = await deliverWith(sent, [OUTAGE, OUTAGE]);
  expect(statements.map(([name]) => name)).toEqual(Array(3).fill("mark-notification-sent"));
  expect(errors).toEqual([`${GIVEN_UP} yet`]);
});
