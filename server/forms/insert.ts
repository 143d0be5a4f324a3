import pg from "pg";
import { LostRace, type Sql } from "../db.js";
import { FORM_CREATED } from "../notifications/enqueue.js";
import { membershipInScope } from "../scope.js";
import type { CreateRequest, Found } from "./idempotency.js";
import { RULES } from "./locks.js";
import type { FormV1 } from "./schema.js";
import { NOTE_CREATING } from "./settle.js";

/** A form to insert; its time is the database's. */
export interface NewForm extends Omit<FormV1, "createdAt"> {
  /** Sealed. */
  guestEmail: Buffer | null;
}

/** Who creates it, for the audit row. */
export interface Author {
  kind: string;
  id: string;
  correlationId: string;
}

/**
 * All rows of a create, or none: in one statement, each step fed by the one before. It waits for whoever is changing
 * the membership or the listing, and for whoever is inserting the same fingerprint or key, and writes nothing where
 * the listing's rules have changed since it was judged, or the fingerprint has been taken. A key that has been taken
 * is an error of the primary key.
 */
export const INSERT = `
  WITH judged AS MATERIALIZED (
    SELECT locked.id, ${NOTE_CREATING} AS noted
    FROM (
      SELECT l.id
      FROM memberships m JOIN listings l ON l.id = m.listing_id
      WHERE ${membershipInScope("$1")} AND m.listing_id = $2::uuid AND ${RULES} = $3
      FOR SHARE OF l, m
    ) locked
  ), released AS (
    UPDATE creations SET current_fingerprint = NULL
    WHERE form_id = $4::uuid AND current_fingerprint IS NOT NULL AND EXISTS (SELECT FROM judged)
    RETURNING form_id
  ), stamped AS MATERIALIZED (
    SELECT clock_timestamp()::timestamptz(3) AS at FROM judged WHERE $4::uuid IS NULL OR EXISTS (SELECT FROM released)
  ), creation AS (
    INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer)
    SELECT $5::uuid, $1::uuid, $6::bytea, $6::bytea, $7::jsonb || jsonb_build_object(
      'createdAt', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
    FROM stamped
    ON CONFLICT (holder_id, current_fingerprint) DO NOTHING
    RETURNING form_id
  ), bound AS (
    INSERT INTO idempotency_keys (holder_id, key, form_id)
    SELECT $1::uuid, $8::text, form_id FROM creation WHERE $8::text IS NOT NULL
  ), form AS (
    INSERT INTO forms (id, public_id, listing_id, status, check_in_date, check_out_date, number_of_guests, guest_email,
      fingerprint, created_at)
    SELECT creation.form_id, $9::text, $2::uuid, $10::text, $11::timestamptz, $12::timestamptz, $13::int, $14::bytea,
      $6::bytea, stamped.at
    FROM creation, stamped
    RETURNING id, created_at
  ), audited AS (
    INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details)
    SELECT $15::text, $16::uuid, 'form.created', id, $17::uuid, jsonb_build_object('listingId', $2::uuid) FROM form
  ), notified AS (
    INSERT INTO notifications (kind, form_id) SELECT '${FORM_CREATED}', id FROM form WHERE $14::bytea IS NOT NULL
  )
  SELECT created_at AS "createdAt" FROM form`;

const KEY_IS_TAKEN = "idempotency_keys_pkey";

/** Inserts the form that the request asks for, judged by what was found; throws LostRace where that no longer holds. */
export async function insert(
  sql: Sql,
  request: CreateRequest,
  { listing, byBody }: Found,
  { guestEmail, ...form }: NewForm,
  author: Author,
): Promise<FormV1> {
  const { holderId, fingerprints, key } = request;
  const [row] = await sql
    .query<{ createdAt: string }>("insert-form", INSERT, [
      ...[holderId, form.listingId, listing.rules, byBody?.formId ?? null],
      ...[form.id, fingerprints[0], JSON.stringify(form), key ?? null],
      ...[form.publicId, form.status, form.checkInDate, form.checkOutDate, form.numberOfGuests, guestEmail],
      ...[author.kind, author.id, author.correlationId],
    ])
    .catch((error: unknown) => {
      if (error instanceof pg.DatabaseError && error.constraint === KEY_IS_TAKEN)
        throw new LostRace("the Idempotency-Key was bound meanwhile");
      throw error;
    });
  if (!row)
    throw new LostRace("the listing's rules or the scope have changed, or an equal create was faster");
  return { ...form, createdAt: row.createdAt };
}
