import { columns, FORM as FORM_FIELDS, jsonSql, LISTING as LISTING_FIELDS } from "../public.js";

const KEY = `
  SELECT id, user_id AS "userId", mode FROM api_keys
  WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`;

const FORM_COLUMNS = columns(FORM_FIELDS, "f");
const LISTING_COLUMNS = columns(LISTING_FIELDS, "l");

/** Memberships of the holder $1. */
const OWN_MEMBERSHIP = "m.user_id = $1::uuid AND m.role IN ('OWNER', 'WRITER')";

const FORM = `
  SELECT ${FORM_COLUMNS} FROM forms f
  WHERE f.id = $2::uuid AND EXISTS (SELECT FROM memberships m WHERE ${OWN_MEMBERSHIP} AND m.listing_id = f.listing_id)`;

const LISTING = `
  SELECT ${LISTING_COLUMNS} FROM listings l
  WHERE l.id = $2::uuid AND EXISTS (SELECT FROM memberships m WHERE ${OWN_MEMBERSHIP} AND m.listing_id = l.id)`;

const LISTINGS = `
  SELECT ${LISTING_COLUMNS}
  FROM (
    SELECT m.listing_id, m.listing_created_at FROM memberships m
    WHERE ${OWN_MEMBERSHIP} AND (m.listing_created_at, m.listing_id) > ($2::timestamptz, $3::uuid)
    ORDER BY m.listing_created_at, m.listing_id
    LIMIT $4::int
  ) mine
  JOIN listings l ON l.id = mine.listing_id
  ORDER BY mine.listing_created_at, mine.listing_id`;

const FORMS = `
  SELECT ${FORM_COLUMNS}
  FROM (
    SELECT s.created_at, s.form_id FROM scoped_forms s
    WHERE s.user_id = $1::uuid AND (s.created_at, s.form_id) > ($2::timestamptz, $3::uuid)
    ORDER BY s.created_at, s.form_id
    LIMIT $4::int
  ) mine
  JOIN forms f ON f.id = mine.form_id
  ORDER BY mine.created_at, mine.form_id`;

const iso = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** The replayed response: the stored one with the form's creation time. */
const REPLAY = `c.answer || jsonb_build_object('createdAt', ${iso("f.created_at")})`;

/** The first owner of the listing $2. */
const FIRST_OWNER = `(
  SELECT u.id FROM memberships m JOIN users u ON u.id = m.user_id
  WHERE m.listing_id = $2::uuid AND m.role = 'OWNER' ORDER BY u.created_at, u.id LIMIT 1)`;

/**
 * A create in one statement. $1 holder, $2 listing, $3 fingerprint, $4 Idempotency-Key, $5 id, $6 public id, $7 and $8
 * dates, $9 guests, $10 sealed email, $11 key id, $12 correlation id. Returns no row if the listing is out of scope, and
 * a null answer if its rules reject the form.
 */
const CREATE = `
  WITH listing AS MATERIALIZED (
    SELECT l.active AND ($9::int <= l.max_people_in_listing) IS NOT FALSE AS takes
    FROM memberships m JOIN listings l ON l.id = m.listing_id
    WHERE ${OWN_MEMBERSHIP} AND m.listing_id = $2::uuid
  ), bound AS MATERIALIZED (
    SELECT c.form_id, ${REPLAY} AS answer, c.fingerprint <> $3::bytea AS reused
    FROM idempotency_keys k JOIN creations c ON c.form_id = k.form_id JOIN forms f ON f.id = c.form_id
    WHERE k.holder_id = $1::uuid AND k.key = $4::text
  ), earlier AS MATERIALIZED (
    SELECT * FROM bound
    UNION ALL
    SELECT c.form_id, ${REPLAY}, false FROM creations c JOIN forms f ON f.id = c.form_id
    WHERE c.holder_id = $1::uuid AND c.current_fingerprint = $3::bytea AND NOT EXISTS (SELECT FROM bound)
  ), form AS (
    INSERT INTO forms AS f
      (id, public_id, listing_id, check_in_date, check_out_date, number_of_guests, guest_email, fingerprint)
    SELECT $5::uuid, $6::text, $2::uuid, $7::timestamptz, $8::timestamptz, $9::int, $10::bytea, $3::bytea
    FROM listing WHERE takes AND NOT EXISTS (SELECT FROM earlier)
    RETURNING f.id, ${jsonSql(FORM_FIELDS, "f", iso)} AS answer
  ), creation AS (
    INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
    SELECT id, $1::uuid, $3::bytea, $3::bytea, answer, 'secret' FROM form
  ), binding AS (
    INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
    SELECT $1::uuid, $4::text, form_id, greatest($8::timestamptz, now())
    FROM (SELECT id AS form_id FROM form UNION ALL SELECT form_id FROM earlier) now
    WHERE $4::text IS NOT NULL AND NOT EXISTS (SELECT FROM bound)
  ), entry AS (
    INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details)
    SELECT 'key', $11::uuid, 'form.created', id, $12::uuid, jsonb_build_object('listingId', $2::uuid) FROM form
  ), invitation AS (
    INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id)
    SELECT 'invitation', id, coalesce(${FIRST_OWNER}, $2::uuid), $7::timestamptz, $12::uuid FROM form WHERE $10::bytea IS NOT NULL
  )
  SELECT coalesce(earlier.answer, form.answer) AS answer, earlier.form_id IS NOT NULL AS replayed,
    coalesce(earlier.reused, false) AS reused
  FROM listing LEFT JOIN earlier ON true LEFT JOIN form ON true`;

export const SQL = { KEY, FORM, FORMS, LISTING, LISTINGS, CREATE };
