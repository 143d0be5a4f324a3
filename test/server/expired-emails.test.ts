import { beforeEach, describe, expect, test } from "vitest";
import { expireEmails } from "../../server/emails/expiry.js";
import { smtpMailer } from "../../server/emails/mailer.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { openTestCore } from "../support/core.js";
import { catchRejectedFields, createFormWithOutcome } from "../support/factories.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { emailQueue, setState } from "../support/outbox-queue.js";
import { uniqueStay } from "../support/stays.js";

const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";
const DAY_MS = 86_400_000;
const SILENT = { info() {}, warn() {}, error() {} };
const counts = new ActivityCounts();

const { services, owner, operator, sql, listUnsent } = await openTestCore();

beforeEach(() => sql("TRUNCATE forms, audit_entries CASCADE"));

/** Two days that begin in `days`. */
const stayIn = (days: number) => ({
  checkInDate: new Date(Date.now() + days * DAY_MS).toISOString(),
  checkOutDate: new Date(Date.now() + (days + 2) * DAY_MS).toISOString(),
});

const bodyOf = (stay: object = {}) => uniqueStay(owner.listingId, { guestEmail: "guest@example.com", ...stay });

const create = async (stay?: object): Promise<FormV1> =>
  (await createFormWithOutcome(services, owner.principal, bodyOf(stay), { correlationId: CORRELATION_ID })).form;

// The column has milliseconds: now() may be rounded up, to a time in the future.
const endStay = ({ id }: FormV1) => sql("UPDATE forms SET check_out_date = now() - interval '1 ms' WHERE id = $1", id);
const setStatus = (status: string) => (form: FormV1) => operator.forms.setStatus({ id: form.id, status, force: true });

const stateOf = async ({ id }: FormV1) => (await listUnsent()).find(({ formId }) => formId === id)?.state;
const trace = async () => (await operator.audit.trace({ correlationId: CORRELATION_ID })).entries;

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

test("the nearest stay is claimed first, also after updates that move stays", async () => {
  const [later, far, near] = [await create(stayIn(60)), await create(stayIn(90)), await create(stayIn(30))];
  await owner.forms.update({ ...bodyOf(stayIn(10)), id: far.id });
  const queue = emailQueue(services, "worker");
  const claimed = [];
  for (let next = await queue.claim(); next; next = await queue.claim()) claimed.push(next.formId);
  expect(claimed).toEqual([far, near, later].map(({ id }) => id));
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
  await sql(
    `INSERT INTO emails (kind, form_id, tenant_id, correlation_id, check_in_date, state)
     SELECT 'invitation', CASE WHEN n % 2 = 0 THEN $1::uuid ELSE $2::uuid END, $1, $1,
       now() + n % 7 * interval '1 day', CASE WHEN n % 3 = 0 THEN 'retrying' ELSE 'waiting' END::"EmailState"
     FROM generate_series(1, 2998) n`,
    over.id,
    upcoming.id,
  );
  await Promise.all([expireEmails({ ...services, counts }, SILENT), expireEmails({ ...services, counts }, SILENT)]);
  const rows = "SELECT form_id, state, count(*)::int FROM emails GROUP BY 1, 2 ORDER BY 2";
  expect(await sql(rows)).toEqual([
    { form_id: upcoming.id, state: "waiting", count: 1000 },
    { form_id: upcoming.id, state: "retrying", count: 500 },
    { form_id: over.id, state: "expired", count: 1500 },
  ]);
  const audited = await sql("SELECT FROM audit_entries WHERE action = 'email.expired'");
  expect(audited).toHaveLength(1500);
});
