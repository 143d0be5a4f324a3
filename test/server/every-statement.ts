import { randomUUID } from "node:crypto";
import { expect, vi } from "vitest";
import type { Services } from "../../server/access/context.js";
import { OperatorSessions } from "../../server/access/operator-sessions.js";
import { countUntranslatedListings } from "../../server/emails/languages.js";
import { eraseDueEmails } from "../../server/erasure/erase.js";
import { deleteOldRows } from "../../server/jobs.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import { findUnknownTimeZones } from "../../server/listings/timezones.js";
import { readActivity } from "../../server/outbox/activity.js";
import { readDeliveryFigures, readEmailFigures } from "../../server/outbox/figures.js";
import { announceSecrets } from "../../server/secrets/uses.js";
import { actAs } from "../../server/users/store.js";
import { startWorker } from "../../server/worker.js";
import { readAllPages } from "../support/bulk.js";
import { asOperator, asUser, catchErrorCode, makeKey, openTestServices, TEST_SECRET } from "../support/factories.js";
import { deliveryQueue, emailQueue, setState } from "../support/outbox-queue.js";
import { runSql } from "../support/run-sql.js";
import { fixedStay, uniqueStay } from "../support/stays.js";
import { readFromStandby } from "./standby-statements.js";

/** Whose forms and listings are used. */
export interface Users {
  userId: string;
  /** Has more than 5,000 forms in scope. */
  largeUserId: string;
  listingIds: string[];
}

/** Filters the lists of a small scope and of a large one so that every source is read. */
async function callFilters(services: Services, { userId, largeUserId, listingIds: [listingId] }: Users) {
  const [small, large] = [asUser(services, userId).forms, asUser(services, largeUserId).forms];
  const ever = "2020-01-01T00:00:00Z";
  await small.list({ status: "SENT", updatedSince: ever, listingId });
  await small.list({ checkInFrom: ever });
  await large.list({ status: "SENT" });
  await large.list({ status: "CANCELLED" });
  await large.list({ externalId: "none" });
  await large.list({ updatedSince: "2099-01-01T00:00:00Z" });
  await large.list({ checkInTo: ever });
  await large.list({ updatedSince: ever });
}

/** Runs every procedure at least once, and with the inputs that send other statements. */
export async function callProcedures(
  services: Services,
  { userId, largeUserId, listingIds }: Users,
): Promise<string[]> {
  const called: string[] = [];
  const recordCalls = <Target extends object>(target: Target, path: string[] = []): Target =>
    new Proxy(target, {
      get(_, name: string) {
        const value = target[name as keyof Target] as object;
        if (path.length === 0) return recordCalls(value, [name]);
        called.push([...path, name].join("."));
        return value;
      },
    });
  const user = recordCalls(asUser(services, userId));
  const keyed = recordCalls(asUser(services, userId, { idempotencyKey: "key" }));
  const operator = recordCalls(asOperator(services));
  const [listingId = "", otherId = ""] = listingIds;

  const body = uniqueStay(listingId, { guestEmail: "guest@example.com" });
  const form = await keyed.forms.create(body);
  await user.forms.create(body);
  await user.forms.update({ id: form.id, ...fixedStay(otherId) });
  await recordCalls(asUser(services, userId, { idempotencyKey: "new" })).forms.create(body);
  await user.forms.get({ id: form.id });
  await user.forms.list({});
  await user.forms.list({ listingId });
  await callFilters(services, { userId, largeUserId, listingIds });
  await services.inFlightCreates.wait(new AbortController().signal);
  await operator.forms.getAny({ id: form.id });
  const publicId = form.publicId ?? "";
  await operator.forms.getByPublicId({ publicId });
  await operator.forms.setPartyByPublicId({ publicId, numberOfPets: 2 });
  await operator.forms.completeByPublicId({ publicId });
  for (const filter of [{}, { userId }, { listingId }, { userId, listingId }]) {
    await operator.forms.listAll(filter);
    await operator.forms.listAll({ ...filter, status: "SENT" });
  }
  for (const status of ["SENT", "CANCELLED"] as const) await operator.forms.listAll({ userId: largeUserId, status });
  await operator.forms.listAll({ userId, listingId, status: "SENT", checkInDay: "2027-07-01" });
  await operator.forms.listAll({ arrivesWithinDays: 3 });
  await operator.forms.listAll({ externalId: "booking-1" });
  await operator.forms.listAll({ emailState: "failed" });
  await user.forms.setStatus({ id: form.id, status: "COMPLETED" });
  await operator.forms.setStatus({ id: form.id, status: "SENT" });
  await user.forms.setParty({ id: form.id, numberOfPets: 1 });

  await user.listings.get({ id: listingId });
  await user.listings.list({});
  await operator.listings.getAny({ id: listingId });
  await operator.listings.find({ listing: listingId });
  for (const filter of [{}, { userId }]) await operator.listings.listAll(filter);
  const { email, id: memberId } = await operator.users.create({ email: "member@example.com" });
  const address = { address: "a", city: "c", country: "c", zipCode: "z", timezone: "UTC" };
  const listing = await operator.listings.create({ ownerId: memberId, title: "New", ...address });
  await operator.listings.update({ id: listing.id, title: "Newer" });
  await operator.listings.deactivate({ id: listing.id });

  await operator.users.get({ id: memberId });
  await operator.users.find({ user: email });
  await operator.users.list({});
  for (const text of [listingId, "guest@example.com"]) await operator.find.byText({ text });
  await operator.secrets.outdated({});
  await operator.people.eraseUser({ id: userId, dryRun: true });
  await operator.find.form({ form: form.id });
  for (const role of ["READER", "WRITER", "READER"] as const) {
    await operator.members.set({ listingId, userId: memberId, role });
  }
  await operator.members.list({ listingId });
  await operator.members.list({ userId });
  await operator.members.remove({ listingId, userId: memberId });
  await operator.users.update({ id: memberId, email: "renamed@example.com" });

  const host = { type: "user", externalId: "u", email: "imported@example.com" } as const;
  const place = { type: "listing", externalId: "l", title: "t", ...address } as const;
  const role = { type: "membership", listing: listingId, user: "u", role: "WRITER" } as const;
  for (const value of [host, { ...host, name: "New" }, place, { ...place, title: "new" }, role]) {
    await operator.onboarding.check({ lines: [{ line: 1, value }] });
    await operator.onboarding.write({ rows: [value] });
  }
  for (const type of ["user", "listing", "membership"] as const) await operator.onboarding.export({ type });

  const key = await operator.keys.issue({ userId, mode: "READ_ONLY" });
  await operator.keys.rotate({ id: key.id });
  await operator.keys.list({ userId });
  await operator.keys.list({});
  await operator.keys.find({ key: key.key });
  await operator.keys.revoke({ id: key.id });
  await operator.people.eraseUser({ id: memberId });

  await callWebhooks(services, user.webhooks, listingId);
  const { id: endpointId } = await operator.webhooks.create({ url: "https://example.com", listingIds: [listingId] });
  for (const filter of [{}, { userId }]) await operator.webhooks.list(filter);
  for (const filter of [{ state: "failed" as const }, { formId: listing.id }])
    await operator.webhooks.deliveries(filter);
  for (const filter of [{}, { endpointId }]) await operator.webhooks.count(filter);
  await operator.webhooks.get({ id: endpointId });
  const erased = await operator.users.create({ email: "erased@example.com" });
  await operator.webhooks.create({ userId: erased.id, url: "https://example.com" });
  await operator.people.eraseUser({ id: erased.id });

  const { items: unsent } = await operator.emails.list({ limit: 100 });
  for (const state of ["waiting", "sent"] as const) await operator.emails.list({ state });
  await operator.emails.count();
  await operator.emails.retry({ id: unsent.at(-1)?.id ?? "" });
  await catchErrorCode(operator.emails.retry({ id: "999999999" }));
  await services.db.pool.query(setState("emails", "failed", "id = $1"), [unsent.at(-1)?.id]);
  await operator.emails.retryFailed();
  await services.db.pool.query(setState("emails", "failed", "id = $1"), [unsent.at(-1)?.id]);
  await operator.emails.dismiss({ id: unsent.at(-1)?.id ?? "" });
  await operator.emails.dismissAll();
  await operator.emails.markBounced({ email: "nobody@example.com" });
  const invited = await user.forms.create(fixedStay(listingId, { guestEmail: "guest@example.com", numberOfGuests: 9 }));
  await operator.emails.list({ formId: invited.id });
  await operator.emails.markBounced({ email: `<form-${invited.id}@example.com>`, reason: "550 user unknown" });
  await operator.emails.send({ formId: invited.id });
  await operator.emails.preview({ formId: invited.id });
  await services.db.pool.query(setState("emails", "sent", "form_id = $1"), [invited.id]);
  await operator.emails.send({ formId: invited.id });
  const readdressed = fixedStay(listingId, { guestEmail: "other@example.com", numberOfGuests: 9 });
  await user.forms.update({ id: invited.id, ...readdressed });
  await user.forms.update({ id: invited.id, ...readdressed, cancelled: true });
  await operator.audit.trail({ subjectId: form.id });
  await operator.audit.trace({ correlationId: randomUUID() });
  const rotated = await rotateSecrets(services);
  const after = `${form.id.slice(0, 24)}000000000000`;
  const withRotated = recordCalls(asOperator(rotated));
  await withRotated.secrets.reencrypt({ after });
  await withRotated.secrets.reencrypt({});
  await operator.webhooks.delete({ id: endpointId });
  await withRotated.people.find({ email: "guest@example.com" });
  const { erasedAt, addressHash } = await withRotated.people.erase({ email: "guest@example.com" });
  await withRotated.people.erasures({ since: erasedAt });
  await withRotated.people.reapply({ records: [{ erasedAt, addressHash }] });
  await withRotated.secrets.status({});
  return called;
}

/** Opens the services of a process with a newer secret. */
async function rotateSecrets({ db }: Services): Promise<Services> {
  const secret = "n".repeat(32);
  const open = (...secrets: string[]) => openTestServices({ DATABASE_URL: db.url, APP_SECRETS: secrets.join() });
  await open(TEST_SECRET, secret);
  return open(secret, TEST_SECRET);
}

const WORKER_TIMEOUT = { timeout: 30_000, interval: 20 };

/** Does what the service does besides procedures. */
export async function runBackgroundWork(services: Services, { userId, listingIds }: Users): Promise<void> {
  const { db } = services;
  const [listingId = ""] = listingIds;
  const { key } = await makeKey(services, userId);
  await keyAuthenticator(services)(key);
  await actAs(services, userId);
  const sessions = new OperatorSessions(db, "token");
  const sessionId = await sessions.start("Ada");
  const withoutPlans = new URL(db.url);
  withoutPlans.searchParams.delete("options");
  // A use is written if the last one was more than a minute ago.
  await runSql(withoutPlans.href, "UPDATE operator_sessions SET last_used_at = now() - interval '2 minutes'");
  await sessions.find([sessionId]);
  await sessions.end([sessionId]);
  const { forms } = asUser(services, userId);
  for (let count = 0; count < 8; count++) {
    await forms.create(uniqueStay(listingId, { guestEmail: "guest@example.com" }));
  }
  await readFromStandby(services);
  // The last forms are recent, so their pages wait for creates in flight.
  await readAllPages(1, (page) => forms.list({ ...page, listingId }));
  const queue = emailQueue(services, "worker");
  const claim = async () => (await queue.claim()) ?? expect.fail("no email is due");
  await queue.attempt(await claim());
  await queue.mark(await claim(), "retrying", "reason");
  const expiring = await claim();
  await db.pool.query("UPDATE forms SET status = 'COMPLETED' WHERE id = $1", [expiring.formId]);
  await queue.attempt(expiring);
  const withoutAddress = await claim();
  await db.pool.query("UPDATE forms SET guest_email = NULL WHERE id = $1", [withoutAddress.formId]);
  await queue.attempt(withoutAddress);
  await queue.heartbeat([(await claim()).id]);
  await queue.releaseStale();
  const { webhooks } = asUser(services, userId);
  const { id: endpointId } = await webhooks.create({ url: "https://example.com" });
  for (let count = 0; count < 4; count++) await forms.create(uniqueStay(listingId));
  await sendDeliveries(services);
  await db.pool.query(
    `INSERT INTO emails (kind, endpoint_id, tenant_id, check_in_date, is_urgent, correlation_id)
     VALUES ('endpoint_disabled', $1, $1, now(), true, gen_random_uuid())`,
    [endpointId],
  );
  await webhooks.disable({ id: endpointId });
  await queue.attempt(await claim());
  await webhooks.delete({ id: endpointId });
  await readEmailFigures(db);
  await readDeliveryFigures(db);
  await findUnknownTimeZones(db);
  await countUntranslatedListings(db, ["en"]);
  const log = { info() {}, warn() {}, error() {} };
  const sent: string[] = [];
  const send = async (_: unknown, to: string) => {
    sent.push(to);
    return null;
  };
  await announceSecrets(services).stop();
  const worker = await startWorker(services, log, { mailer: { send } });
  await vi.waitFor(() => expect(sent).not.toEqual([]), WORKER_TIMEOUT);
  const happened = async () => [...(await readActivity(db)).keys()];
  const expected = expect.arrayContaining(["worker.with_mailer", "retention.run"]);
  await vi.waitFor(async () => expect(await happened()).toEqual(expected), WORKER_TIMEOUT);
  await worker.stop();
  const { id: due } = await forms.create(uniqueStay(listingId, { guestEmail: "guest@example.com" }));
  await db.pool.query(
    `UPDATE forms SET check_in_date = now() - interval '366 days', check_out_date = now() - interval '365 days'
     WHERE id = $1`,
    [due],
  );
  await eraseDueEmails(services, log);
  const settings = { ...services.settings, FORM_RETENTION_DAYS: 364 };
  await deleteOldRows({ ...services, settings }, log, new AbortController().signal);
}

/** Calls every procedure of webhooks as a user. */
async function callWebhooks(
  { db }: Services,
  webhooks: ReturnType<typeof asUser>["webhooks"],
  listingId: string,
): Promise<void> {
  const { id } = await webhooks.create({ url: "https://example.com", listingIds: [listingId] });
  await webhooks.update({ id, url: "https://example.com/", listingIds: [] });
  await webhooks.list({});
  await webhooks.get({ id });
  await webhooks.disable({ id });
  await webhooks.enable({ id });
  await webhooks.rotateSecret({ id });
  await webhooks.test({ id });
  for (const filter of [{}, { state: "waiting" as const }]) await webhooks.deliveries({ endpointId: id, ...filter });
  await db.pool.query(setState("webhook_deliveries", "failed", "endpoint_id = $1"), [id]);
  await webhooks.redeliver({ endpointId: id, failed: true });
  await webhooks.redeliver({ endpointId: id, since: "2026-01-01T00:00:00Z" });
  await webhooks.delete({ id });
}

/** Claims deliveries, and records every outcome. */
async function sendDeliveries(services: Services): Promise<void> {
  const answer = { status: 204, body: "", durationMs: 1, retryAfterSeconds: null };
  const queue = deliveryQueue(services, "worker", async () => answer);
  const claim = async () => (await queue.claim()) ?? expect.fail("no delivery is due");
  await queue.attempt(await claim());
  await queue.mark(await claim(), "retrying", "reason");
  await queue.attempt({ ...(await claim()), form: null });
  await queue.heartbeat([(await claim()).id]);
  await queue.releaseStale();
}
