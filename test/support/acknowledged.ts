import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { runSql } from "./run-sql.js";
import type { SentCreate, Traffic } from "./traffic.js";

interface CheckOptions {
  /** Checks only forms on these listings. */
  listingIds?: string[];
  /** Fields that are not part of the received responses. */
  ignoredFields?: readonly string[] | undefined;
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
    (c.answer || jsonb_build_object('createdAt', times.created, 'updatedAt', times.created)) - $2::text[]
      AS answer, coalesce(k.keys, '{}') AS keys, coalesce(a.created, 0) AS created, coalesce(a.updated, 0) AS updated
  FROM forms f
  CROSS JOIN to_char(f.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS times (created)
  LEFT JOIN creations c ON c.form_id = f.id
  LEFT JOIN (SELECT form_id, array_agg(key) AS keys FROM idempotency_keys GROUP BY 1) k ON k.form_id = f.id
  LEFT JOIN (
    SELECT subject_id, count(*) FILTER (WHERE action = 'form.created')::int AS created,
      count(*) FILTER (WHERE action = 'form.updated')::int AS updated
    FROM audit_entries GROUP BY 1
  ) a ON a.subject_id = f.id
  WHERE $1::uuid[] IS NULL OR f.listing_id = ANY($1)`;

const ORPHANS: Record<string, string> = {
  "audit entries of forms that do not exist":
    "audit_entries a WHERE action LIKE 'form.%' AND NOT EXISTS (SELECT FROM forms f WHERE f.id = a.subject_id)",
  "creations without a form": "creations c WHERE NOT EXISTS (SELECT FROM forms f WHERE f.id = c.form_id)",
  "Idempotency-Keys without a creation":
    "idempotency_keys k WHERE NOT EXISTS (SELECT FROM creations c WHERE c.form_id = k.form_id)",
};

/**
 * Stops the traffic, repeats what was not acknowledged, and compares the database with the responses that clients got: every
 * create is stored exactly once, equal to its response and audited; every form matches its last acknowledged update; nothing
 * else is stored; no response violated a guarantee. Returns the number of forms.
 */
export async function expectNothingLost(
  traffic: Traffic,
  databaseUrl: string,
  { listingIds, ignoredFields = [] }: CheckOptions = {},
): Promise<{ forms: number }> {
  await traffic.stop();
  await traffic.retryUnacknowledged();
  const rows = await runSql<FormRow>(databaseUrl, FORMS, [listingIds, ignoredFields]);
  const violations = [...traffic.violations, ...checkForms(rows, traffic.creates)];
  for (const [what, from] of Object.entries(ORPHANS)) {
    const found = await runSql(databaseUrl, `SELECT FROM ${from}`);
    if (found.length > 0) violations.push(`${found.length} ${what}`);
  }
  expect(violations).toEqual([]);
  return { forms: rows.length };
}

function checkForms(rows: FormRow[], creates: SentCreate[]): string[] {
  const byKey = new Map(rows.flatMap((row) => row.keys.map((key) => [key, row] as const)));
  const expected = new Set(creates.map(({ key }) => byKey.get(key)?.id));
  const extra = rows.filter(({ id }) => !expected.has(id)).map(({ id }) => `the form ${id} is unexpected`);
  return [...extra, ...creates.flatMap((create) => checkCreate(create, byKey.get(create.key)))];
}

function checkCreate({ form, key, updates }: SentCreate, row: FormRow | undefined): string[] {
  if (!form) return [`the create with the key ${key} was never acknowledged`];
  if (!row) return [`the form ${form.id} was acknowledged but is lost`];
  const found: string[] = [];
  if (row.id !== form.id) found.push(`the form ${form.id} was acknowledged but ${row.id} is stored`);
  if (row.keys.length !== 1) found.push(`the form ${row.id} has ${row.keys.length} Idempotency-Keys`);
  // The link is never stored.
  const { guestUrl: _, ...stored } = form;
  if (!isDeepStrictEqual(row.answer, stored))
    found.push(`the stored response of the form ${row.id} differs from the received one`);
  if (row.created !== 1) found.push(`the form ${row.id} has ${row.created} audit entries form.created`);
  if (row.updated < updates.acknowledged || row.updated > updates.sent)
    found.push(
      `the form ${row.id} has ${row.updated} audit entries form.updated: ${updates.acknowledged} of ${updates.sent} updates were acknowledged`,
    );
  const isPossible = updates.possibleBodies.some(
    (body) =>
      body.listingId === row.listingId &&
      body.checkInDate === row.checkIn &&
      body.checkOutDate === row.checkOut &&
      body.numberOfGuests === row.guests,
  );
  if (!isPossible) found.push(`the form ${row.id} does not match its last update`);
  return found;
}
