import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { Sql } from "../../server/db.js";
import { asUser, fixedStay, openTestServices } from "../factories.js";
import { insertListingsWithForms, listingIdsInScope, makeUserWithForms } from "./bulk.js";

let services: Services;
const holders: Record<string, string> = {};

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "" });
  for (const [name, listings] of Object.entries({ one: 1, ten: 10, fifty: 50, many: 400 })) {
    holders[name] = await makeUserWithForms(services, { listings, formsPerListing: 10, distinctTimes: 5000 });
    await insertListingsWithForms(services, holders[name], {
      listings: 5,
      formsPerListing: 10,
      distinctTimes: 5000,
      role: "READER",
    });
  }
  for (let others = 0; others < 10; others++) {
    await makeUserWithForms(services, { listings: 40, formsPerListing: 50, distinctTimes: 5000 });
  }
  await services.db.pool.query(
    `INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer)
     SELECT id, $1, decode(md5(id::text), 'hex'), decode(md5(id::text), 'hex'), '{}' FROM forms`,
    [holders.ten],
  );
  await services.db.pool.query(
    "INSERT INTO idempotency_keys (holder_id, key, form_id) SELECT $1, form_id::text, form_id FROM creations",
    [holders.ten],
  );
  await services.db.pool.query("ANALYZE");
});

interface Plan {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  Plans?: Plan[];
}

const scans = (plan: Plan): string[] => [
  ...(plan["Relation Name"]
    ? [
        `${plan["Node Type"]} on ${plan["Relation Name"]} by ${plan["Index Name"] ?? plan.Plans?.[0]?.["Index Name"]}`,
      ]
    : []),
  ...(plan.Plans ?? []).flatMap(scans),
];

/** How Postgres reads the tables for each statement of a call, under the plan that it keeps for all holders. */
async function scansOf(
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
    const read: Record<string, string[]> = {};
    for (const [name, text, values] of statements) {
      await client.query(`PREPARE examined AS ${text}`);
      // The values do not matter to a generic plan.
      const explained = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>(
        `EXPLAIN (FORMAT JSON) EXECUTE examined${values.length > 0 ? `(${values.map(() => "NULL").join(", ")})` : ""}`,
      );
      await client.query("DEALLOCATE examined");
      read[name] = (explained.rows[0]?.["QUERY PLAN"] ?? []).flatMap(({ Plan }) => scans(Plan));
    }
    return read;
  } finally {
    client.release();
  }
}

const WITHOUT_TABLES = new Set([
  "serialize-equal-creates",
  "note-create",
  "insert-creation",
  "insert-form",
  "audit",
]);

describe("no operation reads a whole table", () => {
  test.each(["one", "ten", "fifty", "many"])("for a holder of %s", async (name) => {
    const userId = holders[name] ?? "";
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
      const read = await scansOf(call, userId);
      expect(Object.keys(read).join(", ")).toBe(statements.replace(/, later$/, ""));
      for (const [statement, how] of Object.entries(read)) {
        if (!WITHOUT_TABLES.has(statement)) expect(how.length, statement).toBeGreaterThan(0);
        expect(
          how.filter((scan) => scan.startsWith("Seq Scan")),
          statement,
        ).toEqual([]);
        // By another index, one membership would cost all of the holder's.
        if (statement === "listings") continue;
        const byOthers = how.filter((scan) =>
          / on memberships by (?!\w*(?:pkey|listing_id_user_id_idx)$)/.test(scan),
        );
        expect(byOthers, statement).toEqual([]);
      }
    }
  });

  test("a cursor at the heels of the writers looks at the locks alone", async () => {
    const userId = holders.ten ?? "";
    const [listingId = ""] = await listingIdsInScope(services, userId);
    const { forms } = asUser(services, userId);
    for (const numberOfGuests of [1, 2, 3]) await forms.create(fixedStay(listingId, { numberOfGuests }));
    const tail = await tailOf(forms);
    const read = await scansOf(({ forms }) => forms.list({ cursor: tail, limit: 1 }), userId);
    expect(Object.keys(read)).toEqual(["forms", "in-flight-creates"]);
    const tables = read["in-flight-creates"]?.filter((scan) => !scan.includes("pg_database"));
    expect(tables).toEqual([]);
  });

  /** The cursor of the last page of two. */
  async function tailOf(forms: Caller["forms"]): Promise<string> {
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
