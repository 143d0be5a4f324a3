import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import type { Services } from "../../server/access/context.js";
import { OperatorSessions } from "../../server/access/operator-sessions.js";
import { eraseDueEmails } from "../../server/erasure/erase.js";
import { deleteOldRows } from "../../server/jobs.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import { findUnknownTimeZones } from "../../server/listings/timezones.js";
import { readActivity } from "../../server/outbox/activity.js";
import { readDeliveryFigures, readEmailFigures } from "../../server/outbox/figures.js";
import { appRouter } from "../../server/router.js";
import { actAs } from "../../server/users/store.js";
import { startWorker } from "../../server/worker.js";
import { insertListingsWithForms, listingIdsInScope, makeUserWithForms, readAllPages } from "../support/bulk.js";
import { asOperator, asUser, catchErrorCode, makeKey, openTestServices, TEST_SECRET } from "../support/factories.js";
import { deliveryQueue, emailQueue, setState } from "../support/outbox-queue.js";
import { type PlanNode, planNodes, type RecordedPlan, recordPlans, withPlans } from "../support/recorded-plans.js";
import { runSql } from "../support/run-sql.js";
import { fixedStay, uniqueStay } from "../support/stays.js";

let plans: RecordedPlan[];
let calledProcedures: string[];
let userId: string;
let largeUserId: string;
let listingIds: string[];
let indexesOfOutbox: string[];

beforeAll(async () => {
  const plain = await openTestServices();
  await fillTables(plain);
  const { rows } = await plain.db.pool.query(
    "SELECT indexname FROM pg_indexes WHERE tablename IN ('emails', 'webhook_deliveries')",
  );
  indexesOfOutbox = rows.map(({ indexname }) => indexname);
  plans = await recordPlans(async () => {
    const services = await openTestServices({ DATABASE_URL: withPlans(plain.db.url) });
    calledProcedures = await callProcedures(services);
    await runBackgroundWork(services);
  });
});

/** Gives every growing table thousands of rows, so that reading one completely costs more than using an index. */
async function fillTables(plain: Services): Promise<void> {
  userId = await makeUserWithForms(plain, { listings: 10, formsPerListing: 20, distinctTimes: 5000 });
  const reader = { listings: 5, formsPerListing: 10, distinctTimes: 5000, role: "READER" } as const;
  await insertListingsWithForms(plain, userId, reader);
  for (let other = 0; other < 7; other++) {
    await makeUserWithForms(plain, { listings: 1000, formsPerListing: 2, distinctTimes: 5000 });
  }
  largeUserId = await makeUserWithForms(plain, { listings: 1000, formsPerListing: 6, distinctTimes: 5000 });
  listingIds = await listingIdsInScope(plain, userId);
  const statements = `
     INSERT INTO users (email) SELECT 'bulk' || n || '@example.com' FROM generate_series(1, 5000) n;
     INSERT INTO api_keys (user_id, hash, prefix, mode, created_at)
       SELECT id, decode(md5(id::text), 'hex'), left(id::text, 12), 'READ_WRITE', now() - random() * interval '1 year' FROM users;
     INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
       SELECT f.id, u.id, decode(md5(f.id::text), 'hex'), decode(md5(f.id::text), 'hex'), '{}', 'secret'
       FROM forms f, (SELECT id FROM users LIMIT 1) u;
     INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
       SELECT holder_id, form_id::text, form_id, now() FROM creations;
     INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
       SELECT 'system', 'form.created', id, gen_random_uuid(), '{}' FROM forms;
     INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, state, ended_at, next_attempt_at)
       SELECT 'invitation', id, listing_id, now(), gen_random_uuid(), 'sent', now(), NULL FROM forms;
     INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, state, ended_at, next_attempt_at)
       SELECT 'invitation', id, listing_id, now(), gen_random_uuid(), 'expired', now(), NULL FROM forms LIMIT 3000;
     INSERT INTO webhook_endpoints (user_id, url, events, listing_ids, secret)
       SELECT id, 'https://example.com', '{}', '{}', '\\x00' FROM users WHERE email LIKE 'bulk%';
     INSERT INTO webhook_deliveries (form_id, correlation_id, state, ended_at, next_attempt_at, endpoint_id, event_id, event_type)
       SELECT f.id, gen_random_uuid(), 'sent', now(), NULL, w.id, gen_random_uuid(), 'form.created'
       FROM (SELECT id, row_number() OVER () AS n FROM forms) f
         JOIN (SELECT id, row_number() OVER () AS n FROM webhook_endpoints) w ON w.n = f.n % 100 + 1;
     INSERT INTO webhook_deliveries (form_id, correlation_id, state, next_attempt_at, endpoint_id, event_id, event_type)
       SELECT form_id, correlation_id, 'retrying', now() + interval '1 day', endpoint_id, gen_random_uuid(), event_type
       FROM webhook_deliveries LIMIT 3000;
     INSERT INTO operator_sessions (hash, name)
       SELECT decode(md5(n::text), 'hex'), 'Ada' FROM generate_series(1, 5000) n;
     INSERT INTO erasures (address_hash, erased_at) SELECT 'hash-' || n, now() FROM generate_series(1, 5000) n;
     UPDATE forms SET guest_email = '\\x00' WHERE id IN (SELECT id FROM forms LIMIT 5000);
     UPDATE audit_entries SET at = '2020-01-01' WHERE id < 1000;
     UPDATE emails SET ended_at = '2020-01-01' WHERE form_id::text LIKE '1%';
     UPDATE webhook_deliveries SET ended_at = '2020-01-01' WHERE form_id::text LIKE '1%' AND ended_at IS NOT NULL;
     UPDATE idempotency_keys SET retention_starts_at = '2020-01-01' WHERE key LIKE '1%';
     ANALYZE`;
  // One by one, because a pool closes a connection that receives nothing for the statement timeout.
  for (const statement of statements.split(";")) await plain.db.pool.query(statement);
}

/** Runs every procedure at least once, and with the inputs that send other statements. */
async function callProcedures(services: Services): Promise<string[]> {
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
  await services.inFlightCreates.wait(new AbortController().signal);
  await operator.forms.getAny({ id: form.id });
  await operator.forms.getByPublicId({ publicId: form.publicId ?? "" });
  for (const filter of [{}, { userId }, { listingId }, { userId, listingId }]) {
    await operator.forms.listAll(filter);
    await operator.forms.listAll({ ...filter, status: "SENT" });
  }
  await operator.forms.listAll({ userId: largeUserId, status: "SENT" });
  await operator.forms.listAll({ userId, listingId, status: "SENT", checkInDay: "2027-07-01" });
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
  const invited = await user.forms.create(fixedStay(listingId, { guestEmail: "guest@example.com", numberOfGuests: 9 }));
  await operator.emails.list({ formId: invited.id });
  await operator.emails.send({ formId: invited.id });
  await operator.emails.preview({ formId: invited.id });
  await services.db.pool.query(setState("emails", "sent", "form_id = $1"), [invited.id]);
  await operator.emails.send({ formId: invited.id });
  await operator.audit.trail({ subjectId: form.id });
  await operator.audit.trace({ correlationId: randomUUID() });
  const rotated = await rotateSecrets(services);
  const after = `${form.id.slice(0, 8)}-0000-0000-0000-000000000000`;
  await recordCalls(asOperator(rotated)).secrets.reencrypt({ after });
  await asOperator(rotated).secrets.reencrypt({});
  await operator.webhooks.delete({ id: endpointId });
  await operator.people.find({ email: "guest@example.com" });
  const { erasedAt, addressHash } = await operator.people.erase({ email: "guest@example.com" });
  await operator.people.erasures({ since: erasedAt });
  await operator.people.reapply({ records: [{ erasedAt, addressHash }] });
  await recordCalls(asOperator(rotated)).secrets.status({});
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
async function runBackgroundWork(services: Services): Promise<void> {
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
  const log = { info() {}, warn() {}, error() {} };
  const sent: string[] = [];
  const send = async (_: unknown, to: string) => void sent.push(to);
  const worker = await startWorker(services, log, { mailer: { send } });
  await vi.waitFor(() => expect(sent).not.toEqual([]), WORKER_TIMEOUT);
  const happened = async () => [...(await readActivity(db)).keys()];
  const expected = expect.arrayContaining(["worker.with_mailer", "retention.run"]);
  await vi.waitFor(async () => expect(await happened()).toEqual(expected), WORKER_TIMEOUT);
  await worker.stop();
  const { id: due } = await forms.create(uniqueStay(listingId, { guestEmail: "guest@example.com" }));
  await db.pool.query(
    `UPDATE forms SET check_out_date = now() - interval '1 year'
     WHERE id = $1`,
    [due],
  );
  await eraseDueEmails(services, log);
  await deleteOldRows(services, log, new AbortController().signal);
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

/** Names of the prepared statements in `server/`. */
function namesInSource(): string[] {
  const files = readdirSync("server", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const calls = files.flatMap((name) => [
    ...readFileSync(join("server", name), "utf8").matchAll(/\bquery(?:<[^(]*>)?\(\s*"([a-z-]+)"/g),
  ]);
  return [...new Set(calls.map(([, name = ""]) => name))].sort();
}

/** Tables that stay small, Postgres's own, and that of `support/outbox-move-guard.ts`. All others may grow, new ones included. */
const SMALL_TABLES = ["worker_activity", "secret_checks", "_prisma_migrations", "pg_database", "moves"];

/** Statements that may read a whole table or index, and why. */
const ALLOWED = [
  // A page of everything, for the operator. An index would cost every create more than these rare reads.
  "newest-listings: Seq Scan on listings",
  "newest-users: Seq Scan on users",
  // Deletes the sessions that have expired, at a sign-in.
  "start-session: Seq Scan on operator_sessions",
  // Reads all listings, for `doctor`.
  "listings-in-unknown-time-zones: Seq Scan on listings",
  // Reads all erasures, for the operator.
  "erasures: Seq Scan on erasures",
  // Reads all forms with an address, as the erasure before it did.
  "changed-addresses: forms_email_due_idx",
  // Counts the creates of all stays to come, for the operator.
  "creates-by-secret: Seq Scan on creations",
  "creates-by-secret: Seq Scan on forms",
  // Read all unsent emails, which are few compared to those sent.
  "email-figures: emails_unsent_idx",
  // Read one entry per tenant or endpoint for which something waits.
  "claim-emails: emails_due_idx",
  "claim-deliveries: webhook_deliveries_due_idx",
  "find-pending-endpoints: webhook_deliveries_due_idx",
  // Read all endpoints, and what waits for them.
  "delivery-figures: Seq Scan on webhook_endpoints",
];

const describeScan = (node: PlanNode) => node["Index Name"] ?? `${node["Node Type"]} on ${node["Relation Name"]}`;

test("every procedure and every prepared statement is examined, and so are the statements of triggers", () => {
  expect([...new Set(calledProcedures)].sort()).toEqual(Object.keys(appRouter._def.procedures).sort());
  const statements = new Set(plans.map(({ statement }) => statement));
  expect(namesInSource().length).toBeGreaterThan(40);
  expect(namesInSource().filter((name) => !statements.has(name))).toEqual([]);
  for (const start of ["INSERT INTO scoped_forms", "DELETE FROM scoped_forms", "SELECT 1 FROM ONLY"]) {
    expect([...statements].filter((statement) => statement.startsWith(start))).not.toEqual([]);
  }
});

test("no statement reads a whole table that grows, except those listed", () => {
  const found = plans.flatMap(({ statement, plan }) =>
    planNodes(plan)
      // A bitmap heap scan reads what its index scans found.
      .filter((node) => /^(Seq|Index|Index Only|Bitmap Index) Scan$/.test(node["Node Type"]) && !node["Index Cond"])
      .filter((node) => !SMALL_TABLES.includes(node["Relation Name"] ?? ""))
      .map((node) => `${statement}: ${describeScan(node)}`),
  );
  expect([...new Set(found)].sort()).toEqual([...ALLOWED].sort());
});

/** The indexes of the outbox, each with the statements that would otherwise read or sort too much. */
const REASONS = {
  emails_due_idx: ["claim-emails"],
  emails_unsent_idx: ["list-emails", "expire-emails", "email-figures", "failed-emails", "release-emails"],
  emails_ended_idx: ["list-sent-emails", "delete-old-emails"],
  emails_form_id_idx: ["list-emails-of-form", "find-email-of-form", "cancel-emails", "update-form"],
  webhook_deliveries_due_idx: ["claim-deliveries", "find-pending-endpoints", "find-excess", "end-backlog"],
  webhook_deliveries_endpoint_idx: ["newest-deliveries", "find-deliveries", "delete-deliveries"],
  webhook_deliveries_unsent_idx: [
    "newest-deliveries-in-state",
    "expire-deliveries",
    "delivery-figures",
    "release-deliveries",
  ],
  webhook_deliveries_sent_idx: ["delete-old-sent-deliveries"],
  webhook_deliveries_ended_idx: ["delete-old-unsent-deliveries"],
  webhook_deliveries_form_id_idx: ["newest-deliveries-of-form", "erase-answers"],
};

/** The names of the statements whose plans use an index. */
const usersOf = (index: string) =>
  new Set(
    plans
      .filter(({ plan }) => planNodes(plan).some((node) => node["Index Name"] === index))
      .map(({ statement }) => statement),
  );

test("each index of the outbox is used by the statements that it is for, and there is no other", async () => {
  for (const [index, statements] of Object.entries(REASONS))
    expect([index, [...usersOf(index)]]).toEqual([index, expect.arrayContaining(statements)]);
  expect(indexesOfOutbox.sort()).toEqual([...Object.keys(REASONS), "emails_pkey", "webhook_deliveries_pkey"].sort());
});

test.each([
  ["claim-emails", "emails_due_idx"],
  ["claim-deliveries", "webhook_deliveries_due_idx"],
])("%s reads what is due in the order of its index, and sorts only what it may choose from", (name, index) => {
  const nodes = plans.filter(({ statement }) => statement === name).flatMap(({ plan }) => planNodes(plan));
  expect(nodes.filter((node) => node["Index Name"] === index)).not.toEqual([]);
  const sorted = nodes.flatMap((node) => node["Sort Key"] ?? []);
  expect(sorted.filter((key) => /check_in_date|next_attempt_at/.test(key))).toEqual([]);
});
