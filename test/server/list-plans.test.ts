import { beforeAll, describe, expect, test } from "vitest";
import type { Sql, SqlValue } from "../../server/database/db.js";
import { openPool } from "../../server/database/pool.js";
import type { ListParameters } from "../../server/forms/list-builder.js";
import { FEW_OF_NEWEST, FEW_OF_OLDEST, NEWEST, OLDEST } from "../../server/forms/list-statements.js";
import { insertListingsWithForms, listingIdsInScope, makeUserWithForms } from "../support/bulk.js";
import { openTestServices } from "../support/factories.js";
import { type PlanNode, planNodes } from "../support/recorded-plans.js";

// The plans of the lists must not depend on what Postgres knows of the data: a generic plan is made for the average user, and is
// used for the largest.

const services = await openTestServices();
const { pool } = services.db;
let parameters: ListParameters;

beforeAll(async () => {
  // Most users have few forms and one listing, so the planner expects that of everyone.
  const userId = await makeUserWithForms(services, { listings: 800, formsPerListing: 30, distinctTimes: 5000 });
  await insertListingsWithForms(services, userId, { listings: 1, formsPerListing: 9000, distinctTimes: 5000 });
  for (let others = 0; others < 100; others++)
    await makeUserWithForms(services, { listings: 1, formsPerListing: 3, distinctTimes: 5000 });
  await pool.query(`
    UPDATE forms SET external_id = left(id::text, 2), check_in_date = created_at + interval '1 day', updated_at = created_at,
      status = (ARRAY['SENT', 'COMPLETED', 'CHECKED_OUT'])[1 + abs(hashtext(id::text)) % 3]`);
  const listingIds = await listingIdsInScope(services, userId);
  parameters = {
    ...{ userId, afterCreatedAt: "2026-01-01T00:00:01Z", afterId: "00000000-0000-0000-0000-000000000000", take: 51 },
    ...{
      mostInScope: 10,
      mostWithValue: 10,
      settleSeconds: 5,
      all: "9223372036854775807",
      listingId: listingIds[0] ?? "",
    },
    ...{ status: "SENT", externalId: "ab", updatedSince: "2026-01-01T00:00:00Z", checkInDay: "2026-01-02" },
    ...{ emailState: "failed", arrivesWithinDays: 3 },
    ...{ checkInFrom: "2026-01-01T00:00:00Z", checkInTo: "2027-01-01T00:00:00Z", timeZones: ["utc", "europe/berlin"] },
  };
});

const INDEXES = {
  oldest: {
    inScope: ["scoped_forms_pkey"],
    amongNext: ["scoped_forms_pkey"],
    amongStatus: ["forms_status_created_at_id_idx", "scoped_forms_pkey"],
    onListing: ["forms_listing_"],
    byListing: ["forms_listing_"],
    withStatus: ["forms_status_created_at_id_idx"],
    withExternalId: ["forms_external_id_idx"],
    updatedSince: ["forms_updated_idx"],
    checkingIn: ["forms_check_in_date_idx"],
  } satisfies Record<keyof typeof OLDEST, string[]>,
  newest: {
    all: ["forms_status_created_at_id_idx"],
    inStatus: ["forms_status_created_at_id_idx"],
    inScope: ["scoped_forms_pkey"],
    amongStatus: ["forms_status_created_at_id_idx", "scoped_forms_pkey"],
    withStatus: ["forms_status_created_at_id_idx"],
    onListing: ["forms_listing_"],
    byListing: ["forms_listing_"],
    onDay: ["forms_check_in_date_idx"],
    arriving: ["forms_check_in_date_idx"],
    // There are no emails here: query-plans.test.ts examines it.
    withEmailState: [] as string[],
    withExternalId: ["forms_external_id_idx"],
  } satisfies Record<keyof typeof NEWEST, string[]>,
};

const STATEMENTS = [
  ...Object.entries(INDEXES.oldest).map(([name, indexes]) => ({ name, statement: OLDEST[name as "inScope"], indexes })),
  ...Object.entries(INDEXES.newest).map(([name, indexes]) => ({
    ...{ name: `newest ${name}`, statement: NEWEST[name as "inScope"], indexes },
  })),
  ...[FEW_OF_OLDEST, FEW_OF_NEWEST].map((statement, index) => ({
    ...{ name: `choice ${index}`, statement, indexes: ["forms_listing_"] },
  })),
];

type Node = PlanNode & { "Heap Fetches"?: number; "Join Type"?: string };

/** Executes the statement as the service does, and returns the nodes of its plan. */
async function explain(statement: { read: (sql: Sql, parameters: ListParameters) => unknown }): Promise<Node[]> {
  const { pool: sessions, end } = openPool({ ...services.settings }, { name: "plans", max: 1, frozenAfterMs: 60_000 });
  let nodes: Node[] = [];
  const query = async (_name: string, text: string, values: SqlValue[]) => {
    await sessions.query(`PREPARE list AS ${text}`);
    const given = values.map((value) => (value === null ? "NULL" : `'${Array.isArray(value) ? `{${value}}` : value}'`));
    const { rows } = await sessions.query(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE list (${given})`);
    nodes = planNodes(rows[0]["QUERY PLAN"][0].Plan);
    return [];
  };
  await statement.read({ query } as Sql, parameters);
  await end();
  return nodes;
}

const describeNode = ({ "Node Type": type, "Relation Name": table }: Node) => (table ? `${type} on ${table}` : type);

/** What reads or compares more than was asked for, if the planner expected few rows and there are many. */
const UNBOUNDED = /^((Seq|Bitmap Heap) Scan on (forms|scoped_forms)|Materialize|Hash Join|Merge Join)$/;

describe.each([
  ["without statistics", ""],
  ["after VACUUM", "VACUUM ANALYZE"],
  [
    "after a change of all forms, before VACUUM",
    "UPDATE forms SET number_of_pets = 1, updated_at = updated_at + interval '1 ms'; ANALYZE",
  ],
])("%s", (state, statements) => {
  beforeAll(async () => {
    for (const sql of statements.split(";").filter(Boolean)) await pool.query(sql);
  });

  test.each(STATEMENTS)("$name reads ranges of $indexes", async ({ statement, indexes }) => {
    const nodes = await explain(statement);
    expect(nodes.map(describeNode).filter((node) => UNBOUNDED.test(node))).toEqual([]);
    expect(indexes.filter((index) => !nodes.some((node) => node["Index Name"]?.startsWith(index)))).toEqual([]);
    const fetches = nodes
      .filter((node) => node["Index Name"]?.startsWith("forms_listing_"))
      .map((node) => node["Heap Fetches"]);
    if (state === "after VACUUM" && indexes.includes("forms_listing_")) expect(fetches).toEqual([0]);
  });
});
