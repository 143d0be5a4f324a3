-- The statements of `npm run bench -- --storage`, by name.

-- sizes: bytes per form
SELECT relname AS "table", round(pg_table_size(oid) / forms.n) AS rows, round(pg_indexes_size(oid) / forms.n) AS indexes
FROM pg_class, (SELECT count(*)::numeric AS n FROM forms) forms
WHERE relname IN ('creations', 'audit_entries', 'forms', 'scoped_forms', 'idempotency_keys')
  AND relnamespace = current_schema()::regnamespace
ORDER BY pg_total_relation_size(oid) DESC;

-- wal: what the server has written since its start
SELECT wal_records::float8 AS records, wal_fpi::float8 AS pages, wal_bytes::float8 AS bytes FROM pg_stat_wal;

-- update: up to 1,000 random forms, as an update by the API writes them; $1 is the number of forms
WITH updated AS (
  UPDATE forms SET number_of_guests = 1 + number_of_guests % 4, check_out_date = check_out_date + interval '1 day',
    fingerprint = sha256(fingerprint)
  WHERE id IN (SELECT md5('form' || 1 + floor(random() * $1::int)::int)::uuid FROM generate_series(1, 1000))
  RETURNING id, listing_id
)
INSERT INTO audit_entries (at, actor, actor_id, action, subject_id, correlation_id, details)
SELECT now(), 'key', gen_random_uuid(), 'form.updated', id, gen_random_uuid(), jsonb_build_object('listingId', listing_id)
FROM updated;

-- vacuum
VACUUM forms;

-- reindex
REINDEX TABLE CONCURRENTLY forms;

-- outdate: the next run fills the database again
TRUNCATE bench_data;
