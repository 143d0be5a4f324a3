import { isDeepStrictEqual } from "node:util";
import pg from "pg";
import type { Entry } from "./postgres-traffic.js";

/** What was found in the database. */
export interface Findings {
  forms: number;
  auditEntries: number;
  /** One line for each promise that was not kept. */
  violations: string[];
}

interface FormRow {
  id: string;
  listingId: string;
  checkIn: string;
  checkOut: string;
  guests: number;
  answer: unknown;
  keys: string[];
  created: number;
  updated: number;
}

const FORMS = `
  SELECT f.id, f.listing_id AS "listingId", f.number_of_guests AS guests,
    to_char(f.check_in_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "checkIn",
    to_char(f.check_out_date AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "checkOut",
    c.answer || jsonb_build_object('createdAt', to_char(f.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
      AS answer, coalesce(k.keys, '{}') AS keys, coalesce(a.created, 0) AS created, coalesce(a.updated, 0) AS updated
  FROM forms f
  LEFT JOIN creations c ON c.form_id = f.id
  LEFT JOIN (SELECT form_id, array_agg(key) AS keys FROM idempotency_keys GROUP BY 1) k ON k.form_id = f.id
  LEFT JOIN (
    SELECT subject_id, count(*) FILTER (WHERE action = 'form.created')::int AS created,
      count(*) FILTER (WHERE action = 'form.updated')::int AS updated
    FROM audit_entries GROUP BY 1
  ) a ON a.subject_id = f.id`;

const ORPHANS: Record<string, string> = {
  "audit entries of forms that do not exist": `
    SELECT count(*)::int AS n FROM audit_entries a
    WHERE action LIKE 'form.%' AND NOT EXISTS (SELECT FROM forms f WHERE f.id = a.subject_id)`,
  "creations without a form": `
    SELECT count(*)::int AS n FROM creations c WHERE NOT EXISTS (SELECT FROM forms f WHERE f.id = c.form_id)`,
  "Idempotency-Keys without a creation": `
    SELECT count(*)::int AS n FROM idempotency_keys k
    WHERE NOT EXISTS (SELECT FROM creations c WHERE c.form_id = k.form_id)`,
};

/**
 * Holds the database against what its clients were told: every create of theirs is there exactly once, equal to its
 * answer, audited; the form is as the last acknowledged update says; there is nothing else.
 */
export async function findViolations(databaseUrl: string, entries: Entry[]): Promise<Findings> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<FormRow>(FORMS);
    const violations = judge(rows, entries);
    for (const [what, sql] of Object.entries(ORPHANS)) {
      const [found] = (await client.query<{ n: number }>(sql)).rows;
      if (found?.n) violations.push(`${found.n} ${what}`);
    }
    const audited = await client.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM audit_entries WHERE action LIKE 'form.%'",
    );
    return { forms: rows.length, auditEntries: audited.rows[0]?.n ?? 0, violations };
  } finally {
    await client.end();
  }
}

function judge(rows: FormRow[], entries: Entry[]): string[] {
  const byKey = new Map(rows.flatMap((row) => row.keys.map((key) => [key, row] as const)));
  const expected = new Set(entries.map(({ key }) => byKey.get(key)?.id));
  const extra = rows.filter(({ id }) => !expected.has(id)).map(({ id }) => `the form ${id} is one too many`);
  return [...extra, ...entries.flatMap((entry) => judgeEntry(entry, byKey.get(entry.key)))];
}

function judgeEntry({ form, key, updates }: Entry, row: FormRow | undefined): string[] {
  if (!form) return [`a create was never acknowledged: ${key}`];
  if (!row) return [`the form ${form.id} was acknowledged, and is lost`];
  const found: string[] = [];
  if (row.id !== form.id) found.push(`the form ${form.id} was acknowledged, and ${row.id} is there`);
  if (row.keys.length !== 1) found.push(`the form ${row.id} has ${row.keys.length} Idempotency-Keys`);
  if (!isDeepStrictEqual(row.answer, form)) found.push(`the stored answer of ${row.id} is another`);
  if (row.created !== 1) found.push(`the form ${row.id} has ${row.created} entries form.created`);
  if (row.updated < updates.acknowledged || row.updated > updates.sent)
    found.push(
      `the form ${row.id} has ${row.updated} entries form.updated: ${updates.acknowledged} updates were acknowledged of ${updates.sent}`,
    );
  const isPossible = updates.possible.some(
    (body) =>
      body.listingId === row.listingId &&
      body.checkInDate === row.checkIn &&
      body.checkOutDate === row.checkOut &&
      body.numberOfGuests === row.guests,
  );
  if (!isPossible) found.push(`the form ${row.id} is not as its last update says`);
  return found;
}
