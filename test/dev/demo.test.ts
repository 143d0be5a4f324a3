import { describe, expect, it } from "vitest";
import { prepareDemo, type SavedDemo } from "../../gateway/dev/demo.js";
import { startDemoReceiver } from "../../gateway/dev/demo-receiver.js";
import { expireEmails } from "../../server/emails/expiry.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { deleteOldRows } from "../../server/jobs.js";
import { ActivityCounts } from "../../server/outbox/activity.js";
import { expireDeliveries } from "../../server/webhooks/expiry.js";
import { openTestCore } from "../support/core.js";
import { asOperator, asUser, openTestServices } from "../support/factories.js";

const TABLES = [
  "users",
  "listings",
  "memberships",
  "forms",
  "emails",
  "webhook_deliveries",
  "api_keys",
  "audit_entries",
];

describe("a database without users", async () => {
  const services = await openTestServices({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" });
  const operator = asOperator(services);
  let saved: Partial<SavedDemo> = {};
  const receiver = await startDemoReceiver(() => {});
  const start = () => prepareDemo(services, saved, (keys) => (saved = keys), receiver.url);
  const query = async (text: string) => (await services.db.pool.query(text)).rows;
  /** Without the times at which the demo keys were used: a start uses them. */
  const readAll = () =>
    Promise.all(TABLES.map((table) => query(`SELECT to_jsonb(t) - 'last_used_at' AS row FROM ${table} t ORDER BY 1`)));
  const first = await start();

  it("gets hundreds of forms of all statuses over two months, beside those of the demo key", async () => {
    const [all] = await query(`
      SELECT count(*)::int AS forms, array_agg(DISTINCT status) AS statuses, max(created_at) - min(created_at) > interval '60 days' AS "isLong"
      FROM forms`);
    expect(all.forms).toBeGreaterThan(250);
    expect(all.isLong).toBe(true);
    const statuses = new Set(all.statuses.map((status: string) => (status === "ON_HOLD" ? "UNKNOWN" : status)));
    expect(statuses).toEqual(new Set(FORM_STATUSES));
    const [{ userId = "" } = {}] = (await operator.members.list({ listingId: first.listings[0]?.id })).items;
    expect((await asUser(services, userId).forms.list({ limit: 100 })).items).toHaveLength(7);
  });

  it("has an audit trail in the order of time, in which nothing precedes its form", async () => {
    expect(
      await query(`
        SELECT FROM (SELECT at, lag(at) OVER (ORDER BY id) AS before FROM audit_entries) e WHERE at < before
        UNION ALL SELECT FROM audit_entries e JOIN forms f ON f.id = e.subject_id WHERE e.at < f.created_at - interval '1 second'
        UNION ALL SELECT FROM audit_entries WHERE at > now()`),
    ).toEqual([]);
  });

  it("has no email or webhook that a worker would send, and nothing that expires or is past its retention at the start", async () => {
    expect(await query("SELECT FROM emails WHERE next_attempt_at <= now()")).toEqual([]);
    const due = `SELECT FROM webhook_deliveries n JOIN webhook_endpoints w ON w.id = n.endpoint_id
      WHERE n.next_attempt_at <= now() OR w.paused_until IS NULL AND n.next_attempt_at IS NOT NULL`;
    expect(await query(due)).toEqual([]);
    const before = await readAll();
    const deps = { ...services, counts: new ActivityCounts() };
    await expireEmails(deps, { info: () => {} });
    await expireDeliveries(deps, { info: () => {} });
    await deleteOldRows(deps, { info: () => {} }, new AbortController().signal);
    expect(await readAll()).toEqual(before);
  });

  it("shows sent deliveries on the endpoint of the demo receiver", async () => {
    await receiver.connect(services);
    await receiver.connect(services);
    receiver.close();
    const own = (await operator.webhooks.list({})).items.filter(({ userId }) => userId === null);
    expect(own).toMatchObject([{ url: receiver.url, enabled: true }]);
    const { items } = await operator.webhooks.deliveries({ endpointId: own[0]?.id ?? "" });
    expect(new Set(items.map(({ state }) => state))).toEqual(new Set(["sent"]));
  });

  it("is not changed by the second start", async () => {
    const before = await readAll();
    expect(first).toMatchObject(await start());
    expect(await readAll()).toEqual(before);
  });

  it("has failed emails that can be sent again, and waiting and retried ones", async () => {
    const { items } = await operator.emails.list({ limit: 100 });
    expect(items.map(({ state }) => state).sort()).toEqual(["failed", "retrying", "waiting"]);
    for (const { id, formId, lastError } of items.filter(({ state }) => state === "failed")) {
      expect(lastError).toMatch(/: 550 /);
      expect(await operator.emails.retry({ id })).toMatchObject({ formId, state: "waiting", attempts: 0 });
    }
  });
});

it("an interrupted first start is repeated, and a database with a user gets only the demo key holder", async () => {
  const interrupted = await openTestServices();
  const hosts = ["users", "listings", "forms", "emails", "webhook_deliveries"].map(
    (table) => `(SELECT count(*)::int FROM ${table}) AS ${table}`,
  );
  const count = async () => (await interrupted.db.pool.query(`SELECT ${hosts}`)).rows;
  await prepareDemo(interrupted, {}, () => {});
  const complete = await count();
  await interrupted.db.pool.query("DELETE FROM listings WHERE city IN ('Berlin', 'St Ives', 'Lisboa', 'Rome')");
  await interrupted.db.pool.query("DELETE FROM users WHERE email = 'demo.host@example.com'");
  await prepareDemo(interrupted, {}, () => {});
  expect(await count()).toEqual(complete);

  const { services, operator } = await openTestCore();
  await prepareDemo(services, {}, () => {});
  const { items } = await operator.users.list({});
  expect(items.filter(({ email }) => email.endsWith("@hosts.example"))).toEqual([]);
  expect(items).toHaveLength(2);
});
