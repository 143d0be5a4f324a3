import type { Call } from "../access/context.js";
import { columnsOf } from "../resources/resource.js";
import { ERASED_EMAIL } from "../users/store.js";
import { NIL_UUID } from "../values.js";
import { BATCH, type exportInput } from "./schema.js";
import { fieldNames } from "./upsert.js";

const rowsOf = (noun: "user" | "listing", condition = "") => `
  SELECT t.id AS key, '${noun}' AS type, coalesce(t.external_id, t.id::text) AS "externalId", t.id,
    ${columnsOf(fieldNames(noun), "t")}
  FROM ${noun}s t WHERE t.id > $1::uuid ${condition} ORDER BY t.id LIMIT ${BATCH}`;

const USERS = rowsOf("user", `AND t.email <> t.${ERASED_EMAIL}`);
const LISTINGS = rowsOf("listing");

// Subqueries instead of joins, for which the planner would read all users and listings.
const MEMBERSHIPS = `
  SELECT m.user_id || ' ' || m.listing_id AS key, 'membership' AS type,
    (SELECT coalesce(l.external_id, l.id::text) FROM listings l WHERE l.id = m.listing_id) AS listing,
    (SELECT coalesce(u.external_id, u.id::text) FROM users u WHERE u.id = m.user_id) AS "user",
    m.role::text
  FROM memberships m WHERE (m.user_id, m.listing_id) > ($1::uuid, $2::uuid)
  ORDER BY m.user_id, m.listing_id LIMIT ${BATCH}`;

/** No row has these ids. */
const FIRST = `${NIL_UUID} ${NIL_UUID}`;

type ExportedRow = Record<string, unknown> & { key: string };

export async function exportRows({ ctx, input: { type, after = FIRST } }: Call<typeof exportInput>) {
  const { db } = ctx.services;
  const [first, second] = after.split(" ");
  const read = {
    user: () => db.query<ExportedRow>("export-users", USERS, [first]),
    listing: () => db.query<ExportedRow>("export-listings", LISTINGS, [first]),
    membership: () => db.query<ExportedRow>("export-memberships", MEMBERSHIPS, [first, second]),
  };
  const rows = await read[type]();
  const next = rows.length === BATCH ? (rows.at(-1)?.key ?? null) : null;
  return { rows: rows.map(({ key: _, ...row }) => row), next };
}
