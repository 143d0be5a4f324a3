import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Services } from "../../server/access/context.js";
import { appRouter } from "../../server/router.js";
import { insertListingsWithForms, listingIdsInScope, makeUserWithForms } from "../support/bulk.js";
import { openTestServices } from "../support/factories.js";
import { type PlanNode, planNodes, type RecordedPlan, recordPlans, withPlans } from "../support/recorded-plans.js";

import { callProcedures, runBackgroundWork, type Users } from "./every-statement.js";

let plans: RecordedPlan[];
let calledProcedures: string[];
/** The table of each index. */
let tableOf: Map<string, string>;

beforeAll(async () => {
  const plain = await openTestServices();
  const users = await fillTables(plain);
  const { rows } = await plain.db.pool.query("SELECT indexname, tablename FROM pg_indexes WHERE schemaname = 'public'");
  tableOf = new Map(rows.map(({ indexname, tablename }) => [indexname, tablename]));
  plans = await recordPlans(async () => {
    const services = await openTestServices({ DATABASE_URL: withPlans(plain.db.url) });
    calledProcedures = await callProcedures(services, users);
    await runBackgroundWork(services, users);
  });
});

/** Gives every growing table thousands of rows, so that reading one completely costs more than using an index. */
async function fillTables(plain: Services): Promise<Users> {
  const userId = await makeUserWithForms(plain, { listings: 10, formsPerListing: 20, distinctTimes: 5000 });
  const reader = { listings: 5, formsPerListing: 10, distinctTimes: 5000, role: "READER" } as const;
  await insertListingsWithForms(plain, userId, reader);
  for (let other = 0; other < 7; other++) {
    await makeUserWithForms(plain, { listings: 1000, formsPerListing: 2, distinctTimes: 5000 });
  }
  const largeUserId = await makeUserWithForms(plain, { listings: 1000, formsPerListing: 6, distinctTimes: 5000 });
  const listingIds = await listingIdsInScope(plain, userId);
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
  return { userId, largeUserId, listingIds };
}

/** Names of the prepared statements in `server/`. */
function namesInSource(): string[] {
  const files = readdirSync("server", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const calls = files.flatMap((name) => [
    ...readFileSync(join("server", name), "utf8").matchAll(
      /\b(?:query(?:<[^(]*>)?|oldest|newest|findFew)\(\s*"([a-z-]+)"/g,
    ),
  ]);
  return [...new Set(calls.map(([, name = ""]) => name))].sort();
}

/** Tables that stay small, Postgres's own, and that of `support/outbox-move-guard.ts`. All others may grow, new ones included. */
const SMALL_TABLES = ["worker_activity", "secret_checks", "secret_uses", "_prisma_migrations", "pg_database", "moves"];

/** Statements that may read a whole table or index, and why. */
const ALLOWED = [
  // A page of everything, for the operator. An index would cost every create more than these rare reads.
  "newest-listings: Seq Scan on listings",
  "newest-users: Seq Scan on users",
  // Deletes the sessions that have expired, at a sign-in.
  "start-session: Seq Scan on operator_sessions",
  // Read all listings, for `doctor`.
  "listings-in-unknown-time-zones: Seq Scan on listings",
  "untranslated-listings: Seq Scan on listings",
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
  // Has a row for each failover.
  "arrival: Seq Scan on timelines",
  "replayed: Seq Scan on timelines",
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

/**
 * The indexes of what a create and the outbox write, each with statements that would otherwise read or sort too much. Each costs every
 * create, or every message.
 */
const REASONS = {
  forms_pkey: ["form", "forms", "lock-form", "update-form"],
  forms_public_id_key: ["form-by-public-id", "form-id-of-public-id", "find-form"],
  // A further filter gives it another name.
  forms_listing: ["forms-on-listing", "forms-by-listing", "newest-forms-on-listing", "few-forms"],
  forms_external_id_idx: ["forms-with-external-id", "newest-forms-with-external-id", "find-form"],
  forms_status_created_at_id_idx: ["forms-with-status", "newest-forms", "newest-forms-in-status"],
  forms_check_in_date_idx: ["forms-checking-in", "newest-forms-on-day", "newest-forms-arriving", "delete-old-forms"],
  forms_updated_idx: ["forms-updated-since", "few-forms"],
  forms_email_due_idx: ["lock-due-addresses", "changed-addresses"],
  scoped_forms_pkey: ["forms", "newest-forms-of-user"],
  creations_pkey: ["find-earlier-creates", "release-fingerprint", "renew-creation"],
  creations_holder_id_current_fingerprint_key: ["find-earlier-creates"],
  idempotency_keys_pkey: ["find-earlier-creates"],
  idempotency_keys_form_id_idx: ["find-earlier-creates", "bind-key"],
  idempotency_keys_retention_starts_at_idx: ["delete-old-idempotency-keys"],
  audit_entries_pkey: ["delete-old-audit-entries"],
  audit_entries_subject_id_id_idx: ["audit-of-subject"],
  audit_entries_correlation_id_idx: ["audit-of-correlation"],
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

const WRITTEN = [
  "forms",
  "scoped_forms",
  "creations",
  "idempotency_keys",
  "audit_entries",
  "emails",
  "webhook_deliveries",
];

test("each index of what a create and the outbox write is used by the statements that it is for, and there is no other", async () => {
  const found = Object.entries(REASONS).map(([name, statements]) => {
    const index = [...tableOf.keys()].find((each) => each === name || each.startsWith(`${name}_`)) ?? name;
    expect([index, [...usersOf(index)]]).toEqual([index, expect.arrayContaining(statements)]);
    return index;
  });
  const existing = [...tableOf].filter(([, table]) => WRITTEN.includes(table));
  expect(existing.map(([index]) => index).sort()).toEqual([...found, "emails_pkey", "webhook_deliveries_pkey"].sort());
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

const unindent = (text: string) => {
  const lines = text.replace(/^\n/, "").trimEnd().split("\n");
  const indent = Math.min(...lines.filter((line) => line.trim()).map((line) => line.search(/\S/)));
  return lines.map((line) => line.slice(indent)).join("\n");
};

/** The table that a node of a plan reads by an index, or as a whole. Which index may depend on the sample of ANALYZE. */
function describeRead({ "Node Type": type, "Index Name": index, "Relation Name": table }: PlanNode): string[] {
  const read = table ?? tableOf.get(index ?? "") ?? "";
  if (SMALL_TABLES.includes(read)) return [read];
  if (index) return [`${read} by index`];
  return type === "Seq Scan" ? [`${read} whole`] : [];
}

/** Every prepared statement with the tables that it reads. */
function describeStatements(): string {
  const names = [...new Set(plans.map(({ statement }) => statement))].filter((name) => /^[a-z-]+$/.test(name));
  const described = names.sort().map((name) => {
    const ofName = plans.filter(({ statement }) => statement === name);
    const reads = ofName.flatMap(({ plan }) => planNodes(plan)).flatMap(describeRead);
    const texts = [...new Set(ofName.map(({ text }) => unindent(text)))].sort();
    return [`-- ${name}`, `-- reads: ${[...new Set(reads)].sort().join(", ") || "nothing"}`, ...texts].join("\n");
  });
  return `${described.join("\n\n")}\n`;
}

test("every prepared statement has the text and reads what statements.sql says: `npx vitest run query-plans --update` writes it", async () => {
  await expect(describeStatements()).toMatchFileSnapshot("statements.sql");
});
