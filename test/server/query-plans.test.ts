import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { Sql } from "../../server/db.js";
import { asUser, fixedStay, openTestServices } from "../factories.js";
import { insertListingsWithForms, listingIdsInScope, makeUserWithForms } from "./bulk.js";

let services: Services;
const users: Record<string, string> = {};

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
  for (const [name, listings] of Object.entries({ one: 1, ten: 10, fifty: 50, many: 400 })) {
    users[name] = await makeUserWithForms(services, { listings, formsPerListing: 10, distinctTimes: 5000 });
    await insertListingsWithForms(services, users[name], {
      listings: 5,
      formsPerListing: 10,
      distinctTimes: 5000,
      role: "READER",
    });
  }
  for (let other = 0; other < 10; other++) {
    await makeUserWithForms(services, { listings: 40, formsPerListing: 50, distinctTimes: 5000 });
  }
  await services.db.pool.query(
    `INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer)
     SELECT id, $1, decode(md5(id::text), 'hex'), decode(md5(id::text), 'hex'), '{}' FROM forms`,
    [users.ten],
  );
  await services.db.pool.query(
    "INSERT INTO idempotency_keys (holder_id, key, form_id) SELECT $1, form_id::text, form_id FROM creations",
    [users.ten],
  );
  await services.db.pool.query("ANALYZE");
});

interface Plan {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  Plans?: Plan[];
}

const describeScans = (plan: Plan): string[] => [
  ...(plan["Relation Name"]
    ? [
        `${plan["Node Type"]} on ${plan["Relation Name"]} by ${plan["Index Name"] ?? plan.Plans?.[0]?.["Index Name"]}`,
      ]
    : []),
  ...(plan.Plans ?? []).flatMap(describeScans),
];

/** Returns how each statement of a call reads its tables, with the generic plan that is used for all users. */
async function explainCall(
  call: (caller: Caller) => Promise<unknown>,
  userId: string,
): Promise<Record<string, string[]>> {
  const statements: Parameters<Sql["query"]>[] = [];
  const recording = (sql: Sql): Sql => ({
    query: (...statement) => {
      statements.push(statement);
      return sql.query(...statement);
    },
  });
  const { query, sqlTransaction } = services.db;
  const spies = [
    vi.spyOn(services.db, "query").mockImplementation(recording({ query }).query),
    vi
      .spyOn(services.db, "sqlTransaction")
      .mockImplementation((work, signal) => sqlTransaction((tx) => work(recording(tx)), signal)),
  ];
  await call(asUser(services, userId));
  for (const spy of spies) spy.mockRestore();
  const client = await services.db.pool.connect();
  try {
    const { rows } = await client.query("SHOW plan_cache_mode");
    expect(rows).toEqual([{ plan_cache_mode: "force_generic_plan" }]);
    const scans: Record<string, string[]> = {};
    for (const [name, text, values] of statements) {
      await client.query(`PREPARE examined AS ${text}`);
      // The values do not matter to a generic plan.
      const explained = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>(
        `EXPLAIN (FORMAT JSON) EXECUTE examined${values.length > 0 ? `(${values.map(() => "NULL").join(", ")})` : ""}`,
      );
      await client.query("DEALLOCATE examined");
      scans[name] = (explained.rows[0]?.["QUERY PLAN"] ?? []).flatMap(({ Plan }) => describeScans(Plan));
    }
    return scans;
  } finally {
    client.release();
  }
}

const STATEMENTS_WITHOUT_SCANS = new Set([
  "serialize-equal-creates",
  "note-create",
  "insert-creation",
  "insert-form",
  "audit",
]);

describe("no operation scans a whole table", () => {
  test.each(["one", "ten", "fifty", "many"])("for a user with %s listings", async (name) => {
    const userId = users[name] ?? "";
    const [listingId = ""] = await listingIdsInScope(services, userId);
    const caller = asUser(services, userId);
    const { items, nextCursor } = await caller.forms.list({ limit: 5 });
    const [form] = items;
    const { nextCursor: nextListing } = await caller.listings.list({ limit: 1 });
    const calls: Record<string, (caller: Caller) => Promise<unknown>> = {
      forms: ({ forms }) => forms.list({}),
      "forms, later": ({ forms }) => forms.list({ cursor: nextCursor ?? "", limit: 100 }),
      "forms-on-listing": ({ forms }) => forms.list({ listingId }),
      listings: ({ listings }) => listings.list({}),
      "listings, later": ({ listings }) => listings.list(nextListing ? { cursor: nextListing } : {}),
      form: ({ forms }) => forms.get({ id: form?.id ?? "" }),
      listing: ({ listings }) => listings.get({ id: listingId }),
      "serialize-equal-creates, lock-listing, find-earlier-creates, insert-form, audit": ({ forms }) =>
        forms.create(fixedStay(listingId)),
    };
    for (const [statements, call] of Object.entries(calls)) {
      const scans = await explainCall(call, userId);
      expect(Object.keys(scans).join(", ")).toBe(statements.replace(/, later$/, ""));
      for (const [statement, statementScans] of Object.entries(scans)) {
        if (!STATEMENTS_WITHOUT_SCANS.has(statement))
          expect(statementScans.length, statement).toBeGreaterThan(0);
        expect(
          statementScans.filter((scan) => scan.startsWith("Seq Scan")),
          statement,
        ).toEqual([]);
        // With another index, looking up one membership would read all memberships of the user.
        if (statement === "listings") continue;
        const otherIndexScans = statementScans.filter((scan) =>
          / on memberships by (?!\w*(?:pkey|listing_id_user_id_idx)$)/.test(scan),
        );
        expect(otherIndexScans, statement).toEqual([]);
      }
    }
  });

  test("waiting for creates in flight reads only the locks", async () => {
    const userId = users.ten ?? "";
    const [listingId = ""] = await listingIdsInScope(services, userId);
    const { forms } = asUser(services, userId);
    for (const numberOfGuests of [1, 2, 3]) await forms.create(fixedStay(listingId, { numberOfGuests }));
    const cursor = await cursorBeforeLastTwo(forms);
    const scans = await explainCall(({ forms }) => forms.list({ cursor, limit: 1 }), userId);
    expect(Object.keys(scans)).toEqual(["forms", "in-flight-creates"]);
    const tables = scans["in-flight-creates"]?.filter((scan) => !scan.includes("pg_database"));
    expect(tables).toEqual([]);
  });

  /** Returns a cursor with two forms left after it. */
  async function cursorBeforeLastTwo(forms: Caller["forms"]): Promise<string> {
    for (let cursor: string | undefined; ; ) {
      const { items, nextCursor } = await forms.list({ limit: 100, ...(cursor && { cursor }) });
      if (nextCursor) cursor = nextCursor;
      else {
        const short = await forms.list({ limit: items.length - 2, ...(cursor && { cursor }) });
        return short.nextCursor ?? "";
      }
    }
  }
});
