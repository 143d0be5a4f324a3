import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { deliver } from "../../server/notifications/deliver.js";
import { expireNotifications } from "../../server/notifications/expiry.js";
import { smtpMailer } from "../../server/notifications/mailer.js";
import { openQueue } from "../../server/notifications/queue.js";
import { makeSender } from "../../server/notifications/send.js";
import {
  asOperator,
  catchRejectedFields,
  createFormWithOutcome,
  openTestServices,
} from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { openMailServer, openServicesWithMail, startTestWorker } from "../support/mail-server.js";
import { uniqueStay } from "../support/stays.js";

const CORRELATION_ID = "6f0d9b9e-3c55-4a4e-9f5a-6d6f4b1c2d3e";
const DAY_MS = 86_400_000;
const SILENT = { info() {}, warn() {}, error() {} };

let services: Services;
let owner: ListingOwner;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
});

beforeEach(() => services.db.pool.query("TRUNCATE forms, audit_entries CASCADE"));

/** Two days that begin in `days`. */
const stayIn = (days: number) => ({
  checkInDate: new Date(Date.now() + days * DAY_MS).toISOString(),
  checkOutDate: new Date(Date.now() + (days + 2) * DAY_MS).toISOString(),
});

const bodyOf = (stay: object = {}) =>
  uniqueStay(owner.listingId, { guestEmail: "guest@example.com", ...stay });

const create = async (stay?: object): Promise<FormV1> =>
  (await createFormWithOutcome(services, owner.principal, bodyOf(stay), { correlationId: CORRELATION_ID }))
    .form;

const endStay = ({ id }: FormV1) =>
  services.db.pool.query("UPDATE forms SET check_out_date = now() WHERE id = $1", [id]);
const setStatus = (status: string) => (form: FormV1) =>
  asOperator(services).forms.setStatus({ id: form.id, status, force: true });

const listUnsent = () => asOperator(services).notifications.list();
const stateOf = async ({ id }: FormV1) => (await listUnsent()).find(({ formId }) => formId === id)?.state;
const trace = async () => (await asOperator(services).audit.trace({ correlationId: CORRELATION_ID })).entries;

const ENDINGS: [string, (form: FormV1) => Promise<unknown>][] = [
  ["whose stay is over", endStay],
  ["of a form that the guest has completed", setStatus("COMPLETED")],
  ["of a form with a status of a later version", setStatus("ARCHIVED")],
];

describe.each(ENDINGS)("a notification %s", (_, end) => {
  test.each(["with", "without"])(
    "ends as expired %s a mail server, in list, count and trace",
    async (mail) => {
      const mailServer = await openMailServer();
      const [ended, upcoming] = [await create(), await create()];
      await end(ended);
      await startTestWorker(
        mail === "with" ? await openServicesWithMail(services, mailServer.url) : services,
      );
      await expect.poll(() => stateOf(ended)).toBe("expired");
      const [listed] = await listUnsent();
      expect(listed).toMatchObject({ formId: ended.id, attempts: 0, runAt: null });
      expect(await asOperator(services).notifications.count()).toMatchObject({ expired: 1 });
      expect(await trace()).toContainEqual(
        expect.objectContaining({
          action: "notification.expired",
          actor: "system",
          subjectId: ended.id,
          details: { notificationId: listed?.id },
        }),
      );
      await expect.poll(() => stateOf(upcoming)).toBe(mail === "with" ? undefined : "waiting");
      expect(mailServer.received.map(({ mail: { messageId } }) => messageId)).toEqual(
        mail === "with" ? [`<form-${upcoming.id}@guest-forms>`] : [],
      );
    },
  );

  test("expires when it is about to be sent, if that comes first", async () => {
    const mailServer = await openMailServer();
    const mailServices = await openServicesWithMail(services, mailServer.url);
    const form = await create();
    const queue = openQueue(services.db, "worker");
    const claimed = (await queue.claim()) ?? expect.fail("nothing to claim");
    await end(form);
    const mailer = smtpMailer(mailServices.settings) ?? expect.fail("there is no mailer");
    const send = makeSender(services, mailer, SILENT);
    await deliver(claimed, { queue, send, log: SILENT, signal: new AbortController().signal });
    expect(await listUnsent()).toMatchObject([{ state: "expired", attempts: 0, runAt: null }]);
    expect((await trace()).map(({ action }) => action)).toContain("notification.expired");
    expect(mailServer.rcptCount).toBe(0);
  });

  test("is not retried by an operator", async () => {
    const form = await create();
    await end(form);
    for (const state of ["waiting", "failed", "expired"]) {
      await services.db.pool.query(`UPDATE notifications SET state = '${state}'`);
      const [{ id } = { id: "" }] = await listUnsent();
      expect(await catchRejectedFields(asOperator(services).notifications.retry({ id }))).toEqual(["id"]);
      expect(await stateOf(form)).toBe(state);
    }
  });
});

test("a create for a stay that is over enqueues no notification", async () => {
  await create({ checkInDate: "1999-12-31T00:00:00Z", checkOutDate: "2000-01-02T00:00:00Z" });
  await create({ ...stayIn(-2), checkOutDate: new Date(Date.now() - 1000).toISOString() });
  const running = await create(stayIn(-1));
  expect((await listUnsent()).map(({ formId }) => formId)).toEqual([running.id]);
});

test("the nearest stay is claimed first, also after updates that move stays", async () => {
  const [later, far, near] = [await create(stayIn(60)), await create(stayIn(90)), await create(stayIn(30))];
  const unknown = await create(stayIn(70));
  // As created by a version that stores no check-in date.
  await services.db.pool.query("UPDATE notifications SET check_in_date = DEFAULT WHERE form_id = $1", [
    unknown.id,
  ]);
  const { checkInDate, checkOutDate } = stayIn(10);
  await owner.forms.update({ ...bodyOf(), id: far.id, checkInDate, checkOutDate });
  const queue = openQueue(services.db, "worker");
  const claimed = [];
  for (let next = await queue.claim(); next; next = await queue.claim()) claimed.push(next.formId);
  expect(claimed).toEqual([unknown, far, near, later].map(({ id }) => id));
});

test("an expired notification whose stay was moved to a later date is sent if an operator retries it", async () => {
  const form = await create();
  await endStay(form);
  await expireNotifications(services, SILENT);
  await owner.forms.update({ ...bodyOf(stayIn(5)), id: form.id });
  const mailServer = await openMailServer();
  await startTestWorker(await openServicesWithMail(services, mailServer.url));
  const [{ id, state } = { id: "", state: "" }] = await listUnsent();
  expect(state).toBe("expired");
  await asOperator(services).notifications.retry({ id });
  await expect.poll(() => mailServer.received.length).toBe(1);
});

test("a run expires what is due in any number of batches, once, while another run does the same", async () => {
  const { id: over } = await create();
  const { id: upcoming } = await create();
  await endStay({ id: over } as FormV1);
  await services.db.pool.query(
    `INSERT INTO notifications (kind, form_id, check_in_date)
     SELECT 'form.created', CASE WHEN n % 2 = 0 THEN $1::uuid ELSE $2::uuid END,
       CASE WHEN n % 3 = 0 THEN '-infinity' ELSE now() + n % 7 * interval '1 day' END
     FROM generate_series(1, 2998) n`,
    [over, upcoming],
  );
  await Promise.all([expireNotifications(services, SILENT), expireNotifications(services, SILENT)]);
  const { rows } = await services.db.pool.query(
    "SELECT form_id, state, count(*)::int FROM notifications GROUP BY 1, 2 ORDER BY 2",
  );
  expect(rows).toEqual([
    { form_id: upcoming, state: "waiting", count: 1500 },
    { form_id: over, state: "expired", count: 1500 },
  ]);
  const audited = await services.db.pool.query(
    "SELECT FROM audit_entries WHERE action = 'notification.expired'",
  );
  expect(audited.rowCount).toBe(1500);
});
