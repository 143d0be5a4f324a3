-- add-activity
-- reads: worker_activity
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT * FROM unnest($1::text[], $2::bigint[]) ORDER BY 1) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at

-- announce-secrets
-- reads: secret_uses
WITH ended AS (DELETE FROM secret_uses WHERE last_at < now() - interval '1 hour')
INSERT INTO secret_uses (process_id, secrets, last_at) VALUES ($1::uuid, $2::text[], now())
ON CONFLICT (process_id) DO UPDATE SET last_at = excluded.last_at

-- any-form
-- reads: forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt", f.guest_email IS NOT NULL AS "hasGuestEmail" FROM forms f WHERE f.id = $1::uuid

-- any-listing
-- reads: listings by index
SELECT l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt", l.language AS "language" FROM listings l WHERE l.id = $1::uuid

-- arrival
-- reads: timelines whole
SELECT pg_current_wal_flush_lsn()::text AS position, now(), timeline, t.mark::text
FROM left(pg_walfile_name(pg_current_wal_flush_lsn()), 8) AS timeline LEFT JOIN timelines t ON t.id = timeline

-- audit
-- reads: nothing
INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details, actor_name)
SELECT $1::text, $2::uuid, $3::text, subject_id, $5::uuid, details, $7::text
FROM unnest($4::uuid[], $6::jsonb[]) AS entry (subject_id, details)

-- audit-of-correlation
-- reads: api_keys by index, audit_entries by index
SELECT e.id::text, e.at, e.actor, e.actor_id AS "actorId", e.actor_name AS "actorName", e.action, e.subject_id AS "subjectId",
  e.correlation_id AS "correlationId", e.details,
  CASE e.actor WHEN 'user' THEN e.actor_id WHEN 'key' THEN k.user_id END AS "userId",
  CASE WHEN e.action LIKE 'key.%' THEN (SELECT subject.prefix FROM api_keys subject WHERE subject.id = e.subject_id) END AS "keyPrefix"
FROM audit_entries e LEFT JOIN api_keys k ON e.actor = 'key' AND k.id = e.actor_id WHERE e.correlation_id = $1::uuid ORDER BY e.id

-- audit-of-subject
-- reads: api_keys by index, audit_entries by index, webhook_endpoints by index
SELECT entry.* FROM (
  SELECT $1::uuid AS id
  UNION ALL SELECT id FROM api_keys WHERE user_id = $1::uuid
  UNION ALL SELECT id FROM webhook_endpoints WHERE user_id = $1::uuid
) subject CROSS JOIN LATERAL (
  
SELECT e.id::text, e.at, e.actor, e.actor_id AS "actorId", e.actor_name AS "actorName", e.action, e.subject_id AS "subjectId",
  e.correlation_id AS "correlationId", e.details,
  CASE e.actor WHEN 'user' THEN e.actor_id WHEN 'key' THEN k.user_id END AS "userId",
  CASE WHEN e.action LIKE 'key.%' THEN (SELECT subject.prefix FROM api_keys subject WHERE subject.id = e.subject_id) END AS "keyPrefix"
FROM audit_entries e LEFT JOIN api_keys k ON e.actor = 'key' AND k.id = e.actor_id WHERE e.subject_id = subject.id AND e.id < $2::bigint ORDER BY e.id DESC LIMIT $3::int
) entry
ORDER BY entry.id::bigint DESC LIMIT $3::int

-- bind-key
-- reads: idempotency_keys by index
  INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
  SELECT $1::uuid, $2::text, $3::uuid, greatest($4::timestamptz, now())
  WHERE NOT (
  SELECT count(*) FROM (SELECT FROM idempotency_keys WHERE form_id = $3::uuid LIMIT 10) AS bound
) = 10

-- cancel-emails
-- reads: emails by index
DELETE FROM emails WHERE form_id = ANY($1::uuid[]) AND state::text IN ('waiting', 'retrying', 'failed', 'bounced') RETURNING id

-- changed-addresses
-- reads: forms by index
SELECT f.id::text, f.guest_email, (extract(epoch FROM f.created_at) * 1000)::float8 AS "createdMs" FROM forms f
WHERE f.guest_email IS NOT NULL AND age(f.xmin) <= age($1::xid8::xid)

-- claim-deliveries
-- reads: audit_entries by index, forms by index, memberships by index, webhook_deliveries by index, webhook_endpoints by index
WITH RECURSIVE 
pending AS (
  (SELECT n.endpoint_id AS queue_id FROM webhook_deliveries n WHERE n.next_attempt_at IS NOT NULL ORDER BY n.endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT n.endpoint_id FROM webhook_deliveries n
    WHERE n.next_attempt_at IS NOT NULL AND n.endpoint_id > p.queue_id ORDER BY n.endpoint_id LIMIT 1)
  FROM pending p WHERE p.queue_id IS NOT NULL
), queue AS (
  
  SELECT p.queue_id, coalesce(w.user_id, '00000000-0000-0000-0000-000000000000') AS tenant_id, coalesce(busy.running, 0) AS running,
    CASE WHEN w.paused_until > now() THEN 0 WHEN w.failing_since IS NOT NULL THEN 1 ELSE 4 END
      - coalesce(busy.running, 0) AS slots
  FROM pending p CROSS JOIN LATERAL (
    SELECT * FROM webhook_endpoints WHERE id = p.queue_id AND disabled_at IS NULL LIMIT 1) w LEFT JOIN unnest($3::uuid[], $4::int[]) AS busy (queue_id, running) ON busy.queue_id = p.queue_id
), candidate AS (
  SELECT q.queue_id, q.tenant_id, due.is_urgent, q.running + due.place AS load
  FROM queue q CROSS JOIN LATERAL (SELECT is_urgent, row_number() OVER () AS place FROM (SELECT * FROM (
      SELECT n.id, n.is_urgent FROM webhook_deliveries n
      WHERE n.endpoint_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND n.is_urgent AND n.event_type IN ('form.created', 'form.updated', 'form.moved', 'form.status_changed', 'form.cancelled', 'form.party_changed', 'webhook.test')
      ORDER BY n.next_attempt_at LIMIT greatest(0, q.slots) ) AS range UNION ALL SELECT * FROM (
      SELECT n.id, n.is_urgent FROM webhook_deliveries n
      WHERE n.endpoint_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND NOT n.is_urgent AND n.event_type IN ('form.created', 'form.updated', 'form.moved', 'form.status_changed', 'form.cancelled', 'form.party_changed', 'webhook.test')
      ORDER BY n.next_attempt_at LIMIT greatest(0, q.slots) ) AS range) AS due LIMIT greatest(0, q.slots)) AS due
), in_turn AS (
  SELECT c.queue_id, c.tenant_id, coalesce(busy.running, 0)
    + row_number() OVER (PARTITION BY c.tenant_id ORDER BY c.is_urgent DESC, c.load, random()) AS load
  FROM candidate c LEFT JOIN unnest($5::uuid[], $6::int[]) AS busy (tenant_id, running) ON busy.tenant_id = c.tenant_id
), chosen AS (
  SELECT t.queue_id
  FROM in_turn t LEFT JOIN unnest($7::uuid[]) WITH ORDINALITY AS served (tenant_id, turn) ON served.tenant_id = t.tenant_id
  WHERE t.load <= 32
  ORDER BY t.load, coalesce(served.turn, 0), random() LIMIT $2::int
), due AS MATERIALIZED (
  SELECT due.id
  FROM (SELECT c.queue_id, count(*) AS places FROM chosen c GROUP BY 1) AS q
    CROSS JOIN LATERAL (SELECT id FROM (SELECT * FROM (
      SELECT n.id, n.is_urgent FROM webhook_deliveries n
      WHERE n.endpoint_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND n.is_urgent AND n.event_type IN ('form.created', 'form.updated', 'form.moved', 'form.status_changed', 'form.cancelled', 'form.party_changed', 'webhook.test')
      ORDER BY n.next_attempt_at LIMIT q.places FOR UPDATE SKIP LOCKED) AS range UNION ALL SELECT * FROM (
      SELECT n.id, n.is_urgent FROM webhook_deliveries n
      WHERE n.endpoint_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND NOT n.is_urgent AND n.event_type IN ('form.created', 'form.updated', 'form.moved', 'form.status_changed', 'form.cancelled', 'form.party_changed', 'webhook.test')
      ORDER BY n.next_attempt_at LIMIT q.places FOR UPDATE SKIP LOCKED) AS range) AS due LIMIT q.places) AS due
), claimed AS (
  UPDATE webhook_deliveries n
  SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now(), next_attempt_at = NULL, response_body = NULL
  WHERE n.id = ANY(ARRAY(SELECT id FROM due))
  RETURNING n.*
)

SELECT n.id::text AS "deliveryId", n.attempts, n.endpoint_id::text AS "queueId", coalesce(w.user_id, '00000000-0000-0000-0000-000000000000')::text AS "tenantId",
  jsonb_strip_nulls(jsonb_build_object(
  'deliveryId', n.event_id, 'formId', n.form_id, 'endpointId', n.endpoint_id, 'correlationId', n.correlation_id)) AS facts, n.event_id::text AS "eventId", n.correlation_id::text AS "correlationId", n.event_type AS "eventType",
  n.created_at AS timestamp, now()::timestamptz(3) AS "sentAt", w.url, w.revision, array_prepend(w.secret, ARRAY(
    SELECT p.secret FROM unnest(w.previous_secrets, w.previous_secrets_until) AS p (secret, until)
    WHERE p.until > now())) AS secrets, e.details,
  CASE WHEN (w.user_id IS NULL OR EXISTS (
SELECT FROM memberships m WHERE m.user_id = w.user_id::uuid AND grants_scope(m.role) AND m.listing_id = (e.details ->> 'movedFrom')::uuid)) THEN e.details ->> 'movedFrom' END AS "previousListingId",
  f.id IS NOT NULL AS "isInScope", f.guest_email IS NOT NULL AS "hasAddress", f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM claimed n CROSS JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = n.endpoint_id LIMIT 1) w
  LEFT JOIN audit_entries e ON e.id = n.audit_entry_id
  LEFT JOIN forms f ON f.id = n.form_id AND (w.user_id IS NULL OR EXISTS (
SELECT FROM memberships m WHERE m.user_id = w.user_id::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id))

-- claim-emails
-- reads: emails by index, forms by index, listings by index, memberships by index, users by index, webhook_endpoints by index
WITH RECURSIVE 
pending AS (
  (SELECT n.tenant_id AS queue_id FROM emails n WHERE n.next_attempt_at IS NOT NULL ORDER BY n.tenant_id LIMIT 1)
  UNION ALL
  SELECT (SELECT n.tenant_id FROM emails n
    WHERE n.next_attempt_at IS NOT NULL AND n.tenant_id > p.queue_id ORDER BY n.tenant_id LIMIT 1)
  FROM pending p WHERE p.queue_id IS NOT NULL
), queue AS (
  
  SELECT p.queue_id, p.queue_id AS tenant_id, coalesce(busy.running, 0) AS running, $2::int AS slots
  FROM pending p LEFT JOIN unnest($3::uuid[], $4::int[]) AS busy (queue_id, running) ON busy.queue_id = p.queue_id WHERE p.queue_id IS NOT NULL
), candidate AS (
  SELECT q.queue_id, q.tenant_id, due.is_urgent, q.running + due.place AS load
  FROM queue q CROSS JOIN LATERAL (SELECT is_urgent, row_number() OVER () AS place FROM (SELECT * FROM (
      SELECT n.id, n.is_urgent FROM emails n
      WHERE n.tenant_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND n.is_urgent AND n.kind IN ('invitation', 'endpoint_disabled')
      ORDER BY n.check_in_date, n.id LIMIT greatest(0, q.slots) ) AS range UNION ALL SELECT * FROM (
      SELECT n.id, n.is_urgent FROM emails n
      WHERE n.tenant_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND NOT n.is_urgent AND n.check_in_date > now() - interval '1 day' AND n.kind IN ('invitation', 'endpoint_disabled')
      ORDER BY n.check_in_date, n.id LIMIT greatest(0, q.slots) ) AS range UNION ALL SELECT * FROM (
      SELECT n.id, n.is_urgent FROM emails n
      WHERE n.tenant_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND NOT n.is_urgent AND n.check_in_date <= now() - interval '1 day' AND n.kind IN ('invitation', 'endpoint_disabled')
      ORDER BY n.check_in_date DESC, n.id DESC LIMIT greatest(0, q.slots) ) AS range) AS due LIMIT greatest(0, q.slots)) AS due
), in_turn AS (
  SELECT c.queue_id, c.tenant_id, coalesce(busy.running, 0)
    + row_number() OVER (PARTITION BY c.tenant_id ORDER BY c.is_urgent DESC, c.load, random()) AS load
  FROM candidate c LEFT JOIN unnest($5::uuid[], $6::int[]) AS busy (tenant_id, running) ON busy.tenant_id = c.tenant_id
), chosen AS (
  SELECT t.queue_id
  FROM in_turn t LEFT JOIN unnest($7::uuid[]) WITH ORDINALITY AS served (tenant_id, turn) ON served.tenant_id = t.tenant_id
  WHERE t.load <= 1000000
  ORDER BY t.load, coalesce(served.turn, 0), random() LIMIT $2::int
), due AS MATERIALIZED (
  SELECT due.id
  FROM (SELECT c.queue_id, count(*) AS places FROM chosen c GROUP BY 1) AS q
    CROSS JOIN LATERAL (SELECT id FROM (SELECT * FROM (
      SELECT n.id, n.is_urgent FROM emails n
      WHERE n.tenant_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND n.is_urgent AND n.kind IN ('invitation', 'endpoint_disabled')
      ORDER BY n.check_in_date, n.id LIMIT q.places FOR UPDATE SKIP LOCKED) AS range UNION ALL SELECT * FROM (
      SELECT n.id, n.is_urgent FROM emails n
      WHERE n.tenant_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND NOT n.is_urgent AND n.check_in_date > now() - interval '1 day' AND n.kind IN ('invitation', 'endpoint_disabled')
      ORDER BY n.check_in_date, n.id LIMIT q.places FOR UPDATE SKIP LOCKED) AS range UNION ALL SELECT * FROM (
      SELECT n.id, n.is_urgent FROM emails n
      WHERE n.tenant_id = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND NOT n.is_urgent AND n.check_in_date <= now() - interval '1 day' AND n.kind IN ('invitation', 'endpoint_disabled')
      ORDER BY n.check_in_date DESC, n.id DESC LIMIT q.places FOR UPDATE SKIP LOCKED) AS range) AS due LIMIT q.places) AS due
), claimed AS (
  UPDATE emails n
  SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now(), next_attempt_at = NULL
  WHERE n.id = ANY(ARRAY(SELECT id FROM due))
  RETURNING n.*
)

SELECT n.id::text, n.attempts, n.tenant_id::text AS "queueId", n.tenant_id::text AS "tenantId", jsonb_strip_nulls(jsonb_build_object(
  'emailId', n.id::text, 'formId', n.form_id, 'endpointId', n.endpoint_id, 'correlationId', n.correlation_id)) AS facts,
  n.kind, n.form_id::text AS "formId", n.endpoint_id::text AS "endpointId",
  
f.public_id AS "publicId", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate",
f.number_of_guests AS "numberOfGuests",
json_build_object('title', l.title, 'address', l.address, 'zipCode', l.zip_code, 'city', l.city,
  'country', l.country, 'timezone', l.timezone, 'language', l.language) AS listing,
(SELECT json_build_object('name', u.name, 'email', u.email) FROM (
SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.listing_id = l.id AND m.role = 'OWNER' AND u.email <> u.id || '@erased.invalid'
ORDER BY u.created_at, u.id LIMIT 1) AS u) AS host, f.guest_email AS "guestEmail", (coalesce(f.check_out_date <= now(), false) OR f.status <> 'SENT' OR EXISTS (
SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = 'invitation' AND later.id > n.id)) AS "isExpired",
  CASE WHEN n.created_at > f.created_at THEN n.id::text END AS "repeatId",
  w.url, w.disabled_at AS "disabledAt", w.disabled_reason AS reason, o.email AS "ownerEmail"
FROM claimed n
  LEFT JOIN forms f ON f.id = n.form_id LEFT JOIN listings l ON l.id = f.listing_id
  LEFT JOIN webhook_endpoints w ON w.id = n.endpoint_id AND w.disabled_at = n.created_at
  LEFT JOIN users o ON o.id = w.user_id AND o.email <> o.id || '@erased.invalid'

-- clear-labels-of-user
-- reads: api_keys by index
UPDATE api_keys SET label = NULL WHERE user_id = $1::uuid AND label IS NOT NULL

-- commit-without-waiting
-- reads: nothing
SELECT set_config('synchronous_commit', 'off', true) WHERE current_setting('synchronous_standby_names') = ''

-- count-deliveries
-- reads: webhook_deliveries by index
SELECT s.state, (
  SELECT count(*)::int FROM (
    SELECT FROM webhook_deliveries n WHERE n.state <> 'sent' AND n.state = s.state
    ORDER BY n.created_at, n.id LIMIT 10000) AS found) AS count
FROM unnest($1::text[]::"DeliveryState"[]) AS s (state)

-- count-deliveries-of-endpoint
-- reads: webhook_deliveries by index
SELECT s.state, (
  SELECT count(*)::int FROM (
    SELECT FROM webhook_deliveries n WHERE n.endpoint_id = $2::uuid AND n.state = s.state
    ORDER BY n.created_at, n.event_id LIMIT 10000) AS found) AS count
FROM unnest($1::text[]::"DeliveryState"[]) AS s (state)

-- count-endpoints
-- reads: webhook_endpoints by index
SELECT count(*)::int AS count FROM webhook_endpoints w
WHERE w.user_id = $1::uuid OR ($1::uuid IS NULL AND w.user_id IS NULL)

-- creates-by-secret
-- reads: creations whole, forms whole
SELECT id, count(*)::int AS creates, max(until) AS until
FROM (
  SELECT c.secret_id AS id, greatest(f.check_out_date, (c.answer ->> 'checkOutDate')::timestamptz) AS until
  FROM creations c JOIN forms f ON f.id = c.form_id
) AS uses
WHERE until > now() GROUP BY id ORDER BY id

-- delete-deliveries
-- reads: webhook_deliveries by index
DELETE FROM webhook_deliveries
WHERE id = ANY(ARRAY(
  SELECT id FROM webhook_deliveries WHERE endpoint_id = $1::uuid ORDER BY state LIMIT 1000 FOR UPDATE SKIP LOCKED))
RETURNING id

-- delete-endpoint
-- reads: webhook_endpoints by index
DELETE FROM webhook_endpoints w WHERE w.id = $1::uuid

-- delete-old-audit-entries
-- reads: audit_entries by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT ctid, id AS position, at < now() - make_interval(days => $1::int) AS is_due FROM audit_entries
  WHERE id > $2::bigint AND (SELECT pg_try_advisory_xact_lock(7270731556))
  ORDER BY id LIMIT 500), gone AS (
  DELETE FROM audit_entries WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.audit_entries', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at)
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- delete-old-emails
-- reads: emails by index, forms by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT n.ctid, n.ended_at AS position, true AS is_due FROM emails n
  WHERE (SELECT pg_try_advisory_xact_lock(7270731556)) AND n.ended_at < now() - make_interval(days => $1::int) AND n.ended_at >= $2::timestamptz
    AND (n.state = 'sent' OR coalesce((SELECT f.check_out_date FROM forms f WHERE f.id = n.form_id), '-infinity') < now() - make_interval(days => $1::int))
  ORDER BY n.ended_at LIMIT 500 FOR UPDATE OF n SKIP LOCKED), gone AS (
  DELETE FROM emails WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.emails', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at)
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- delete-old-forms
-- reads: emails by index, forms by index, listings by index, memberships by index, webhook_deliveries by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT ctid, position, coalesce(sum(members) OVER (
    ORDER BY position, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < 2000 AS is_due
  FROM (
    SELECT f.ctid, f.id, f.check_in_date AS position,
      (SELECT count(*) FROM memberships m WHERE m.listing_id = f.listing_id) AS members
    FROM forms f JOIN listings l ON l.id = f.listing_id
    WHERE (SELECT pg_try_advisory_xact_lock(7270731556)) AND f.check_in_date < now() - make_interval(days => $1::int) AND f.check_in_date >= $2::timestamptz AND coalesce(f.check_out_date, greatest(f.check_in_date, f.created_at)) < now() - make_interval(days => $1::int)
      AND NOT coalesce((SELECT true FROM emails n WHERE n.form_id = f.id AND n.ended_at IS NULL LIMIT 1), false) AND NOT coalesce((SELECT true FROM webhook_deliveries n WHERE n.form_id = f.id AND n.ended_at IS NULL LIMIT 1), false)
    ORDER BY f.check_in_date LIMIT 50 FOR SHARE OF l SKIP LOCKED FOR UPDATE OF f SKIP LOCKED
  ) AS locked), gone AS (
  DELETE FROM forms WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.forms', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at), audited AS (
INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
SELECT 'system', 'form.deleted', subject_id, correlation_id, details
FROM (SELECT id, (SELECT gen_random_uuid()), jsonb_build_object('reason', 'retention', 'listingId', listing_id) FROM gone) AS entry (subject_id, correlation_id, details))
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- delete-old-idempotency-keys
-- reads: idempotency_keys by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT ctid, retention_starts_at AS position, true AS is_due FROM idempotency_keys
  WHERE retention_starts_at < now() - make_interval(days => $1::int) AND retention_starts_at >= $2::timestamptz AND (SELECT pg_try_advisory_xact_lock(7270731556))
  ORDER BY retention_starts_at LIMIT 500 FOR UPDATE SKIP LOCKED), gone AS (
  DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.idempotency_keys', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at)
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- delete-old-sent-deliveries
-- reads: webhook_deliveries by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT ctid, ended_at AS position, true AS is_due FROM webhook_deliveries
  WHERE (SELECT pg_try_advisory_xact_lock(7270731556)) AND state = 'sent' AND ended_at < now() - make_interval(days => $1::int) AND ended_at >= $2::timestamptz
  ORDER BY ended_at LIMIT 500 FOR UPDATE SKIP LOCKED), gone AS (
  DELETE FROM webhook_deliveries WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.webhook_deliveries', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at)
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- delete-old-undated-forms
-- reads: emails by index, forms by index, listings by index, memberships by index, webhook_deliveries by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT ctid, position, coalesce(sum(members) OVER (
    ORDER BY position, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < 2000 AS is_due
  FROM (
    SELECT f.ctid, f.id, f.created_at AS position,
      (SELECT count(*) FROM memberships m WHERE m.listing_id = f.listing_id) AS members
    FROM forms f JOIN listings l ON l.id = f.listing_id
    WHERE (SELECT pg_try_advisory_xact_lock(7270731556)) AND f.check_in_date IS NULL AND f.created_at >= $2::timestamptz AND coalesce(f.check_out_date, greatest(f.check_in_date, f.created_at)) < now() - make_interval(days => $1::int)
      AND NOT coalesce((SELECT true FROM emails n WHERE n.form_id = f.id AND n.ended_at IS NULL LIMIT 1), false) AND NOT coalesce((SELECT true FROM webhook_deliveries n WHERE n.form_id = f.id AND n.ended_at IS NULL LIMIT 1), false)
    ORDER BY f.created_at LIMIT 50 FOR SHARE OF l SKIP LOCKED FOR UPDATE OF f SKIP LOCKED
  ) AS locked), gone AS (
  DELETE FROM forms WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.forms', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at), audited AS (
INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
SELECT 'system', 'form.deleted', subject_id, correlation_id, details
FROM (SELECT id, (SELECT gen_random_uuid()), jsonb_build_object('reason', 'retention', 'listingId', listing_id) FROM gone) AS entry (subject_id, correlation_id, details))
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- delete-old-unsent-deliveries
-- reads: webhook_deliveries by index, worker_activity
WITH batch AS MATERIALIZED (
  SELECT ctid, ended_at AS position, true AS is_due FROM webhook_deliveries
  WHERE (SELECT pg_try_advisory_xact_lock(7270731556)) AND state <> 'sent' AND ended_at < now() - make_interval(days => $1::int) AND ended_at >= $2::timestamptz
  ORDER BY ended_at LIMIT 500 FOR UPDATE SKIP LOCKED), gone AS (
  DELETE FROM webhook_deliveries WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
), counted AS (
INSERT INTO worker_activity AS known (name, count, last_at)
SELECT name, count, now() FROM (SELECT 'deleted.webhook_deliveries', count(*) FROM gone HAVING count(*) > 0) AS added (name, count)
ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at)
SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch

-- deliveries-of-correlation
-- reads: audit_entries by index, webhook_deliveries by index
SELECT n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
  n.attempts, n.response_status AS "responseStatus", n.next_attempt_at AS "nextAttemptAt"
FROM (SELECT DISTINCT subject_id FROM audit_entries WHERE correlation_id = $1::uuid) e
  JOIN webhook_deliveries n ON n.form_id = e.subject_id
WHERE n.correlation_id = $1::uuid
ORDER BY n.id

-- delivery-figures
-- reads: webhook_deliveries by index, webhook_endpoints by index, webhook_endpoints whole
SELECT count(*) FILTER (WHERE n.state <> 'running')::int AS waiting,
  count(*) FILTER (WHERE n.state = 'running')::int AS running,
  count(*) FILTER (WHERE is_late AND n.next_attempt_at < now() - make_interval(secs => $1))::int AS overdue,
  coalesce(extract(epoch FROM now() - min(n.next_attempt_at) FILTER (WHERE is_late)), 0)::float8 AS "longestWait",
  (SELECT count(*)::int FROM webhook_endpoints WHERE disabled_at IS NULL) AS endpoints,
  (SELECT count(*)::int FROM webhook_endpoints WHERE disabled_at IS NULL AND failing_since IS NOT NULL) AS failing,
  (SELECT count(*)::int FROM webhook_endpoints WHERE disabled_reason IN ('gone', 'failing')) AS disabled
FROM webhook_deliveries n JOIN webhook_endpoints w ON w.id = n.endpoint_id,
  LATERAL (SELECT w.failing_since IS NULL AND w.disabled_at IS NULL) AS of_row (is_late)
WHERE n.state IN ('waiting', 'retrying', 'running') AND n.state <> 'sent'

-- disable-endpoint
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints w SET disabled_at = coalesce(disabled_at, now()), disabled_reason = 'manual'
WHERE w.id = $1::uuid RETURNING w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt"

-- dismiss-email
-- reads: emails by index, forms by index
UPDATE emails n SET state = 'dismissed'
WHERE n.id = ANY(ARRAY(SELECT $1::bigint)) AND n.state::text IN ('failed', 'bounced')
RETURNING n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply

-- dismiss-emails
-- reads: emails by index, forms by index
UPDATE emails n SET state = 'dismissed'
WHERE n.id = ANY(ARRAY(
SELECT id FROM emails WHERE state = ANY('{failed,bounced}'::"EmailState"[]) AND state <> 'sent' AND id > $1::bigint
ORDER BY id LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED)) AND n.state::text IN ('failed', 'bounced')
RETURNING n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply

-- email-figures
-- reads: emails by index
SELECT state, count(*)::int AS count,
  count(*) FILTER (WHERE next_attempt_at < now() - make_interval(secs => $1))::int AS overdue,
  count(*) FILTER (WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $2))::int AS stale,
  coalesce(extract(epoch FROM now() - min(next_attempt_at)), 0)::float8 AS wait
FROM emails WHERE state <> 'sent' GROUP BY state

-- email-states-of-forms
-- reads: emails by index
SELECT DISTINCT ON (n.form_id) n.form_id::text AS "formId", n.state
FROM emails n WHERE n.form_id = ANY($1::uuid[]) AND n.kind = 'invitation' ORDER BY n.form_id, n.id DESC

-- emails-of-message
-- reads: emails by index, forms by index
SELECT n.id::text FROM emails n
WHERE n.form_id = $1::uuid AND n.kind = 'invitation' AND CASE WHEN $2::bigint IS NULL
  THEN n.created_at <= (SELECT f.created_at FROM forms f WHERE f.id = n.form_id) ELSE n.id = $2::bigint END
UNION ALL SELECT n.id::text FROM emails n WHERE $1::uuid IS NULL AND n.id = $2::bigint AND n.endpoint_id IS NOT NULL

-- enable-endpoint
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints w SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, paused_until = NULL, revision = revision + 1
WHERE w.id = $1::uuid RETURNING w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt"

-- end-backlog
-- reads: webhook_deliveries by index, webhook_endpoints by index
UPDATE webhook_deliveries
SET state = 'failed', last_error = coalesce('the endpoint is disabled', last_error), next_attempt_at = NULL, ended_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM webhook_deliveries WHERE endpoint_id = $1::uuid AND next_attempt_at IS NOT NULL AND EXISTS (SELECT FROM webhook_endpoints w WHERE w.id = $1::uuid AND w.disabled_at IS NOT NULL) LIMIT 2000 FOR NO KEY UPDATE SKIP LOCKED))
RETURNING true

-- end-endpoint-pause
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints SET paused_until = now() WHERE id = $1::uuid AND paused_until > now()

-- end-invitations
-- reads: emails by index
UPDATE emails n SET state = 'expired', next_attempt_at = NULL, ended_at = coalesce(n.ended_at, now())
WHERE n.form_id = $1::uuid AND n.kind = 'invitation' AND n.state::text IN ('waiting', 'retrying', 'failed')

-- end-session
-- reads: operator_sessions by index
DELETE FROM operator_sessions WHERE hash = ANY($1::bytea[]) RETURNING name

-- endpoint
-- reads: webhook_endpoints by index
SELECT w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt" FROM webhook_endpoints w WHERE w.id = $1::uuid AND ($2::uuid IS NULL OR w.user_id = $2::uuid)

-- enqueue-invitation
-- reads: forms by index, memberships by index, users by index
WITH n AS (
INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, created_at, is_urgent)
SELECT 'invitation', form_id, coalesce((SELECT u.id FROM (
SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.listing_id = invited.listing_id AND m.role = 'OWNER' AND u.email <> u.id || '@erased.invalid'
ORDER BY u.created_at, u.id LIMIT 1) AS u), invited.listing_id), check_in_date, correlation_id, greatest(now(), (SELECT f.created_at FROM forms f WHERE f.id = invited.form_id) + interval '1 ms'), true
FROM (SELECT id, listing_id, coalesce(check_in_date, now()), $2::uuid FROM forms WHERE id = $1::uuid) AS invited (form_id, listing_id, check_in_date, correlation_id) RETURNING *)
SELECT n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply FROM n

-- erase-answers
-- reads: webhook_deliveries by index
UPDATE webhook_deliveries SET response_body = NULL WHERE form_id = ANY($1::uuid[]) AND response_body IS NOT NULL

-- erase-guest-emails
-- reads: forms by index
UPDATE forms SET guest_email = NULL WHERE id = ANY($1::uuid[])

-- erase-user
-- reads: users by index
UPDATE users SET email = id || '@erased.invalid', name = NULL, external_id = NULL WHERE id = $1::uuid

-- erasure-start
-- reads: nothing
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon, clock_timestamp()::timestamptz(3) AS at

-- erasures
-- reads: erasures whole
SELECT erased_at AS "erasedAt", address_hash AS "addressHash" FROM erasures
WHERE erased_at >= $1::timestamptz ORDER BY erased_at, address_hash

-- expire-deliveries
-- reads: webhook_deliveries by index
UPDATE webhook_deliveries
SET state = 'expired', last_error = coalesce(NULL, last_error), next_attempt_at = NULL, ended_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM webhook_deliveries WHERE state = $1::"DeliveryState" AND state <> 'sent' AND created_at < now() - interval '3 days' AND queued_at < now() - interval '3 days'
 ORDER BY created_at, id LIMIT 2000 FOR NO KEY UPDATE SKIP LOCKED))
RETURNING true

-- expire-emails
-- reads: emails by index, forms by index
WITH examined AS MATERIALIZED (
  SELECT id, created_at FROM emails
  WHERE state = $1::"EmailState" AND state <> 'sent' AND (created_at, id) > ($2::timestamptz, $3::bigint)
  ORDER BY created_at, id LIMIT 500
), due AS MATERIALIZED (
  SELECT n.id
  FROM emails n LEFT JOIN forms f ON f.id = n.form_id
  WHERE n.id = ANY(ARRAY(SELECT id FROM examined)) AND n.state::text IN ('waiting', 'retrying', 'failed', 'bounced')
    AND CASE n.kind WHEN 'invitation' THEN (coalesce(f.check_out_date <= now(), false) OR f.status <> 'SENT' OR EXISTS (
SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = 'invitation' AND later.id > n.id))
      WHEN 'endpoint_disabled' THEN n.created_at < now() - interval '3 days' END
  FOR UPDATE OF n SKIP LOCKED
), expired AS (
  UPDATE emails SET state = CASE state::text WHEN 'bounced' THEN 'dismissed' ELSE 'expired' END::"EmailState",
    next_attempt_at = NULL, ended_at = coalesce(ended_at, now())
  WHERE id = ANY(ARRAY(SELECT id FROM due))
  RETURNING id, form_id, endpoint_id, correlation_id, state
), audited AS (
  
INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
SELECT 'system', 'email.expired', subject_id, correlation_id, details
FROM (SELECT coalesce(form_id, endpoint_id), correlation_id, jsonb_build_object('emailId', id::text) FROM expired WHERE state::text = 'expired') AS entry (subject_id, correlation_id, details)
), audited_bounced AS (
  
INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
SELECT 'system', 'email.dismissed', subject_id, correlation_id, details
FROM (SELECT coalesce(form_id, endpoint_id), correlation_id, jsonb_build_object('emailId', id::text) FROM expired WHERE state::text = 'dismissed') AS entry (subject_id, correlation_id, details)
)
SELECT created_at::text AS "createdAt", id::text, (SELECT count(*)::int FROM expired) AS expired
FROM examined ORDER BY examined.created_at DESC, examined.id DESC LIMIT 1

-- export-listings
-- reads: listings by index
SELECT t.id AS key, 'listing' AS type, coalesce(t.external_id, t.id::text) AS "externalId", t.id,
  t.title AS "title", t.address AS "address", t.city AS "city", t.country AS "country", t.zip_code AS "zipCode", t.timezone AS "timezone", t.active AS "active", t.district AS "district", t.max_people_in_listing AS "maxPeopleInListing", t.max_vehicles AS "maxVehicles", t.allow_pets AS "allowPets", t.language AS "language"
FROM listings t WHERE t.id > $1::uuid  ORDER BY t.id LIMIT 200

-- export-memberships
-- reads: listings by index, memberships by index, users by index
SELECT m.user_id || ' ' || m.listing_id AS key, 'membership' AS type,
  (SELECT coalesce(l.external_id, l.id::text) FROM listings l WHERE l.id = m.listing_id) AS listing,
  (SELECT coalesce(u.external_id, u.id::text) FROM users u WHERE u.id = m.user_id) AS "user",
  m.role::text
FROM memberships m WHERE (m.user_id, m.listing_id) > ($1::uuid, $2::uuid)
ORDER BY m.user_id, m.listing_id LIMIT 200

-- export-users
-- reads: users by index
SELECT t.id AS key, 'user' AS type, coalesce(t.external_id, t.id::text) AS "externalId", t.id,
  t.email AS "email", t.name AS "name"
FROM users t WHERE t.id > $1::uuid AND t.email <> t.id || '@erased.invalid' ORDER BY t.id LIMIT 200

-- failed-emails
-- reads: emails by index
SELECT n.id::text FROM emails n WHERE n.state = 'failed' AND n.state <> 'sent'

-- few-forms
-- reads: forms by index, memberships by index, scoped_forms by index
SELECT CASE
  WHEN CASE WHEN $4::uuid IS NULL
    THEN NOT EXISTS (SELECT FROM scoped_forms s WHERE s.user_id = $1::uuid
      AND (s.created_at, s.form_id) > ($2::timestamptz, $3::uuid) ORDER BY s.created_at, s.form_id OFFSET $11::int LIMIT 1)
    ELSE NOT EXISTS (SELECT FROM forms f WHERE f.listing_id = (SELECT m.listing_id FROM memberships m WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND m.listing_id = $4::uuid)
      AND (f.created_at, f.id) > ($2::timestamptz, $3::uuid) ORDER BY f.created_at, f.id OFFSET $11::int LIMIT 1) END THEN 'all'
  WHEN $5::text IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE f.external_id = $5::text AND (f.created_at, f.id) > ($2::timestamptz, $3::uuid) ORDER BY f.created_at, f.id OFFSET $6::int LIMIT 1) THEN 'withExternalId'
  WHEN $7::timestamptz IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE coalesce(f.updated_at, f.created_at) >= $7::timestamptz ORDER BY coalesce(f.updated_at, f.created_at) OFFSET $6::int LIMIT 1) THEN 'updatedSince'
  WHEN coalesce($8::timestamptz, $9::timestamptz) IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE f.check_in_date >= coalesce($8::timestamptz, '-infinity')
      AND f.check_in_date < coalesce($9::timestamptz, 'infinity') ORDER BY f.check_in_date OFFSET $6::int LIMIT 1) THEN 'checkingIn'
  WHEN $10::text IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE f.status = $10::text AND (f.created_at, f.id) > ($2::timestamptz, $3::uuid) ORDER BY f.created_at, f.id OFFSET $6::int LIMIT 1) THEN 'withStatus'
END AS few
WHERE /* on the primary */ true

-- few-newest-forms
-- reads: forms by index, memberships by index, scoped_forms by index
SELECT CASE
  WHEN CASE WHEN $4::uuid IS NULL
    THEN NOT EXISTS (SELECT FROM scoped_forms s WHERE s.user_id = $1::uuid
      AND (s.created_at, s.form_id) < ($2::timestamptz, $3::uuid) ORDER BY s.created_at DESC, s.form_id DESC OFFSET $11::int LIMIT 1)
    ELSE NOT EXISTS (SELECT FROM forms f WHERE f.listing_id = (SELECT m.listing_id FROM memberships m WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND m.listing_id = $4::uuid)
      AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid) ORDER BY f.created_at DESC, f.id DESC OFFSET $11::int LIMIT 1) END THEN 'all'
  WHEN $5::text IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE f.external_id = $5::text AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid) ORDER BY f.created_at DESC, f.id DESC OFFSET $6::int LIMIT 1) THEN 'withExternalId'
  WHEN $7::timestamptz IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE coalesce(f.updated_at, f.created_at) >= $7::timestamptz ORDER BY coalesce(f.updated_at, f.created_at) OFFSET $6::int LIMIT 1) THEN 'updatedSince'
  WHEN coalesce($8::timestamptz, $9::timestamptz) IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE f.check_in_date >= coalesce($8::timestamptz, '-infinity')
      AND f.check_in_date < coalesce($9::timestamptz, 'infinity') ORDER BY f.check_in_date OFFSET $6::int LIMIT 1) THEN 'checkingIn'
  WHEN $10::text IS NOT NULL
    AND NOT EXISTS (SELECT FROM forms f WHERE f.status = $10::text AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid) ORDER BY f.created_at DESC, f.id DESC OFFSET $6::int LIMIT 1) THEN 'withStatus'
END AS few
WHERE /* on the primary */ true

-- find-by-id
-- reads: api_keys by index, audit_entries by index, forms by index, listings by index, users by index, webhook_endpoints by index
(
    SELECT 'form' AS kind, f.id AS id, l.title AS name, f.status::text AS about, f.check_in_date::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM forms f JOIN listings l ON l.id = f.listing_id WHERE f.id BETWEEN $1::uuid AND $2::uuid ORDER BY f.id LIMIT 11) UNION ALL (
    SELECT 'listing' AS kind, l.id AS id, l.title AS name, l.city::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM listings l WHERE l.id BETWEEN $1::uuid AND $2::uuid ORDER BY l.id LIMIT 11) UNION ALL (
    SELECT 'user' AS kind, u.id AS id, coalesce(u.name, u.email) AS name, u.email::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM users u WHERE u.id BETWEEN $1::uuid AND $2::uuid ORDER BY u.id LIMIT 11) UNION ALL (
    SELECT 'key' AS kind, k.id AS id, k.prefix AS name, k.label::text AS about, NULL::timestamptz AS "checkInDate", k.user_id::uuid AS "userId"
    FROM api_keys k WHERE k.id BETWEEN $1::uuid AND $2::uuid ORDER BY k.id LIMIT 11) UNION ALL (
    SELECT 'endpoint' AS kind, w.id AS id, w.url AS name, NULL::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM webhook_endpoints w WHERE w.id BETWEEN $1::uuid AND $2::uuid ORDER BY w.id LIMIT 11) UNION ALL (
    SELECT 'request' AS kind, e.correlation_id AS id, e.correlation_id::text AS name, NULL::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM (SELECT DISTINCT correlation_id FROM audit_entries WHERE correlation_id BETWEEN $1::uuid AND $2::uuid ORDER BY correlation_id) e LIMIT 11)

-- find-by-name
-- reads: forms by index, listings by index, users by index
(
    SELECT 'form' AS kind, f.id AS id, l.title AS name, f.status::text AS about, f.check_in_date::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM forms f JOIN listings l ON l.id = f.listing_id WHERE f.public_id = ANY($2::text[]) LIMIT 11) UNION ALL (
    SELECT 'form' AS kind, f.id AS id, l.title AS name, f.status::text AS about, f.check_in_date::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM forms f JOIN listings l ON l.id = f.listing_id WHERE f.external_id = $1::text ORDER BY f.created_at DESC, f.id DESC LIMIT 11) UNION ALL (
    SELECT 'listing' AS kind, l.id AS id, l.title AS name, l.city::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM listings l WHERE l.external_id = $1::text LIMIT 11) UNION ALL (
    SELECT 'listing' AS kind, l.id AS id, l.title AS name, l.city::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM listings l WHERE l.public_id = ANY($2::text[]) LIMIT 11) UNION ALL (
    SELECT 'user' AS kind, u.id AS id, coalesce(u.name, u.email) AS name, u.email::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM users u WHERE u.external_id = $1::text LIMIT 11) UNION ALL (
    SELECT 'user' AS kind, u.id AS id, coalesce(u.name, u.email) AS name, u.email::text AS about, NULL::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM users u WHERE lower(u.email COLLATE "C") = lower($1::text COLLATE "C") LIMIT 11)

-- find-deliveries
-- reads: webhook_deliveries by index
SELECT b.id::text AS "rowId", b.created_at AS "createdAt", b.event_id::text AS id
FROM unnest($5::text[]::"DeliveryState"[]) AS s (state) CROSS JOIN LATERAL (
  SELECT n.id, n.created_at, n.event_id FROM webhook_deliveries n
  WHERE n.endpoint_id = $1::uuid AND n.state = s.state AND (n.created_at, n.event_id) > ($2::timestamptz, $3::uuid)
    AND n.created_at < coalesce($4::timestamptz, 'infinity') AND ($6::uuid IS NULL OR n.event_id = $6::uuid)
  ORDER BY n.created_at, n.event_id LIMIT 1000) AS b
ORDER BY b.created_at, b.event_id LIMIT 1000

-- find-earlier-creates
-- reads: creations by index, forms by index, idempotency_keys by index, memberships by index
  (
    SELECT true AS "isByKey", c.form_id AS "formId", c.fingerprint = ANY($3::bytea[]) AS "hasEqualBody",
  f.fingerprint, f.external_id AS "externalId", f.status, c.answer, f.created_at AS "createdAt",
  (
  SELECT count(*) FROM (SELECT FROM idempotency_keys WHERE form_id = c.form_id LIMIT 10) AS bound
) = 10 AS "hasAllKeys", coalesce((
    SELECT true FROM memberships m WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id), false) AS "isInScope"
    FROM idempotency_keys k JOIN creations c ON c.form_id = k.form_id JOIN forms f ON f.id = c.form_id
    WHERE k.holder_id = $1::uuid AND k.key = $2::text
  ) UNION ALL (
    SELECT false AS "isByKey", c.form_id AS "formId", c.fingerprint = ANY($3::bytea[]) AS "hasEqualBody",
  f.fingerprint, f.external_id AS "externalId", f.status, c.answer, f.created_at AS "createdAt",
  (
  SELECT count(*) FROM (SELECT FROM idempotency_keys WHERE form_id = c.form_id LIMIT 10) AS bound
) = 10 AS "hasAllKeys", coalesce((
    SELECT true FROM memberships m WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id), false) AS "isInScope"
    FROM creations c JOIN forms f ON f.id = c.form_id
    WHERE c.holder_id = $1::uuid AND c.current_fingerprint = ANY($3::bytea[])
    LIMIT 1
  )

-- find-email
-- reads: emails by index, forms by index
SELECT n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply FROM emails n
WHERE n.state <> 'sent' AND n.state::text NOT IN ('bounced', 'dismissed') AND n.id = $1::bigint

-- find-email-of-form
-- reads: emails by index, forms by index
SELECT n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply FROM emails n
WHERE n.state <> 'sent' AND n.state::text NOT IN ('bounced', 'dismissed') AND n.form_id = $1::uuid AND n.kind = 'invitation' AND NOT EXISTS (
SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = 'invitation' AND later.id > n.id)

-- find-excess
-- reads: webhook_deliveries by index
SELECT queued_at::text AS "queuedAt", id::text FROM webhook_deliveries WHERE endpoint_id = $1::uuid AND next_attempt_at IS NOT NULL
ORDER BY webhook_deliveries.queued_at DESC, webhook_deliveries.id DESC OFFSET 50000 LIMIT 1

-- find-form
-- reads: forms by index
SELECT id FROM (
  (SELECT f.id, CASE WHEN $1::uuid = $2::uuid THEN 1 ELSE 3 END AS rank
    FROM forms f WHERE f.id BETWEEN $1::uuid AND $2::uuid ORDER BY f.id LIMIT 2)
  UNION (SELECT f.id, 2 FROM forms f WHERE f.public_id = ANY($3::text[]) LIMIT 2)
  UNION (SELECT f.id, 3 FROM forms f WHERE f.external_id = $4::text ORDER BY f.created_at DESC, f.id DESC LIMIT 2)
) AS found
ORDER BY rank FETCH FIRST ROW WITH TIES

-- find-forms-of-guest
-- reads: forms by index, listings by index
(
    SELECT 'form' AS kind, f.id AS id, l.title AS name, f.status::text AS about, f.check_in_date::timestamptz AS "checkInDate", NULL::uuid AS "userId"
    FROM forms f JOIN listings l ON l.id = f.listing_id WHERE f.id = ANY($1::uuid[]) ORDER BY f.created_at DESC, f.id DESC LIMIT 11)

-- find-key
-- reads: api_keys by index
SELECT k.id AS "id", k.prefix AS "prefix", k.mode AS "mode", k.expires_at AS "expiresAt", k.user_id AS "userId", k.label AS "label", k.created_at AS "createdAt", k.revoked_at AS "revokedAt", k.last_used_at AS "lastUsedAt", k.replaced_by AS "replacedBy"
FROM api_keys k
WHERE k.id = $1::uuid OR k.hash = $2::bytea OR k.prefix = $3::text
LIMIT 2

-- find-listing
-- reads: listings by index
SELECT l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt", l.language AS "language"
FROM listings l
WHERE l.external_id = $1::text OR l.id = $2::uuid

-- find-pending-endpoints
-- reads: webhook_deliveries by index, webhook_endpoints by index
WITH RECURSIVE 
pending AS (
  (SELECT n.endpoint_id AS queue_id FROM webhook_deliveries n WHERE n.next_attempt_at IS NOT NULL ORDER BY n.endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT n.endpoint_id FROM webhook_deliveries n
    WHERE n.next_attempt_at IS NOT NULL AND n.endpoint_id > p.queue_id ORDER BY n.endpoint_id LIMIT 1)
  FROM pending p WHERE p.queue_id IS NOT NULL
)
SELECT p.queue_id::text AS id, w.id IS NULL AS "isDeleted", w.disabled_at IS NOT NULL AS "isDisabled"
FROM pending p LEFT JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = p.queue_id LIMIT 1) w ON true
WHERE p.queue_id IS NOT NULL

-- find-session
-- reads: operator_sessions by index
SELECT hash, name,
  last_used_at < least(last_input - interval '1 second', now() - interval '1 minute') AS "isUnwritten",
  extract(epoch FROM least(
    created_at + interval '8 hours',
    greatest(last_used_at, last_input) + interval '30 minutes'
  ) - now())::float AS "secondsLeft"
FROM operator_sessions CROSS JOIN (SELECT now() - make_interval(secs => $2) AS last_input) AS input
WHERE hash = ANY($1::bytea[]) AND created_at > now() - interval '8 hours' AND last_used_at > now() - interval '30 minutes' ORDER BY created_at DESC LIMIT 1

-- find-user
-- reads: users by index
SELECT u.id AS "id", u.email AS "email", u.name AS "name", u.external_id AS "externalId", u.created_at AS "createdAt"
FROM users u
WHERE u.external_id = $1::text OR u.id = $2::uuid OR lower(u.email COLLATE "C") = $3
LIMIT 2

-- form
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
WHERE f.id = $2::uuid AND m.user_id = $1::uuid AND grants_scope(m.role) AND /* on the primary */ true

-- form-by-public-id
-- reads: forms by index, listings by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt", json_build_object('language', l.language,'title', l.title,'address', l.address,'zipCode', l.zip_code,'city', l.city,'district', l.district,'country', l.country,'timezone', l.timezone,'maxPeopleInListing', l.max_people_in_listing,'maxVehicles', l.max_vehicles,'allowPets', l.allow_pets) AS listing
FROM forms f JOIN listings l ON l.id = f.listing_id
WHERE f.public_id = $1::text

-- form-id-of-public-id
-- reads: forms by index
SELECT f.id FROM forms f WHERE f.public_id = $1::text

-- form-to-invite
-- reads: forms by index
SELECT f.guest_email IS NOT NULL AS "hasAddress", coalesce(f.check_out_date <= now(), false) AS "isOver", f.status
FROM forms f WHERE f.id = $1::uuid FOR NO KEY UPDATE

-- forms
-- reads: forms by index, scoped_forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT s.created_at, s.form_id AS id FROM scoped_forms s
  WHERE s.user_id = $3::uuid AND (s.created_at, s.form_id) > ($4::timestamptz, $5::uuid)
  ORDER BY created_at, id LIMIT $6::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-among-next
-- reads: forms by index, scoped_forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT s.created_at, s.id
  FROM (
  SELECT s.created_at, s.form_id AS id FROM scoped_forms s
  WHERE s.user_id = $3::uuid AND (s.created_at, s.form_id) > ($4::timestamptz, $5::uuid) ORDER BY s.created_at, s.form_id LIMIT 2000) s
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = s.id LIMIT 1) f
  WHERE ($6::text IS NULL OR f.status = $6::text)
      AND ($7::text IS NULL OR f.external_id = $7::text)
      AND ($8::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $8::timestamptz)
      AND ($9::timestamptz IS NULL OR f.check_in_date >= $9::timestamptz)
      AND ($10::timestamptz IS NULL OR f.check_in_date < $10::timestamptz)
  ORDER BY created_at, id LIMIT $11::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-among-status
-- reads: forms by index, scoped_forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT f.created_at, f.id
  FROM (
    SELECT f.created_at, f.id FROM forms f WHERE f.status = $3::text AND (f.created_at, f.id) > ($4::timestamptz, $5::uuid)
    ORDER BY f.created_at, f.id LIMIT 2000
  ) f
  CROSS JOIN LATERAL (
    SELECT FROM scoped_forms s
    WHERE s.user_id = $6::uuid AND s.created_at = f.created_at AND s.form_id = f.id LIMIT 1
  ) s
  ORDER BY created_at, id LIMIT $7::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-by-id
-- reads: forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt" FROM forms f WHERE f.id = ANY($1::uuid[]) ORDER BY f.created_at, f.id

-- forms-by-listing
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT first.created_at, first.id
  FROM (SELECT m.listing_id FROM memberships m WHERE m.user_id = $5::uuid AND grants_scope(m.role) OFFSET 0) listing
  CROSS JOIN LATERAL (
    SELECT f.created_at, f.id FROM (SELECT f.created_at, f.id, f.status, f.external_id, f.updated_at, f.check_in_date FROM forms f
      WHERE f.listing_id = listing.listing_id AND (f.created_at, f.id) > ($3::timestamptz, $4::uuid) ORDER BY f.created_at, f.id LIMIT $6::bigint) f
    WHERE ($7::text IS NULL OR f.status = $7::text)
      AND ($8::text IS NULL OR f.external_id = $8::text)
      AND ($9::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $9::timestamptz)
      AND ($10::timestamptz IS NULL OR f.check_in_date >= $10::timestamptz)
      AND ($11::timestamptz IS NULL OR f.check_in_date < $11::timestamptz)
    ORDER BY f.created_at, f.id LIMIT $12::int
  ) first
  ORDER BY created_at, id LIMIT $12::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-checking-in
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT f.created_at, f.id, f.listing_id FROM (SELECT * FROM forms f WHERE f.check_in_date >= coalesce($3::timestamptz, '-infinity')
      AND f.check_in_date < coalesce($4::timestamptz, 'infinity') ORDER BY f.check_in_date LIMIT $5::bigint) f
    WHERE (f.created_at, f.id) > ($6::timestamptz, $7::uuid) AND ($8::uuid IS NULL OR f.listing_id = $8::uuid)
      AND ($9::text IS NULL OR f.status = $9::text)
      AND ($10::text IS NULL OR f.external_id = $10::text)
      AND ($11::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $11::timestamptz)
      AND ($3::timestamptz IS NULL OR f.check_in_date >= $3::timestamptz)
      AND ($4::timestamptz IS NULL OR f.check_in_date < $4::timestamptz) ORDER BY f.created_at, f.id LIMIT $5::bigint) f
  CROSS JOIN LATERAL (SELECT m.listing_id FROM memberships m WHERE m.user_id = $12::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id LIMIT 1) m
  ORDER BY created_at, id LIMIT $13::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-on-listing
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT first.created_at, first.id
  FROM (SELECT m.listing_id FROM memberships m WHERE m.user_id = $5::uuid AND grants_scope(m.role) AND m.listing_id = $6::uuid OFFSET 0) listing
  CROSS JOIN LATERAL (
    SELECT f.created_at, f.id FROM (SELECT f.created_at, f.id, f.status, f.external_id, f.updated_at, f.check_in_date FROM forms f
      WHERE f.listing_id = listing.listing_id AND (f.created_at, f.id) > ($3::timestamptz, $4::uuid) ORDER BY f.created_at, f.id LIMIT $7::bigint) f
    WHERE ($8::text IS NULL OR f.status = $8::text)
      AND ($9::text IS NULL OR f.external_id = $9::text)
      AND ($10::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $10::timestamptz)
      AND ($11::timestamptz IS NULL OR f.check_in_date >= $11::timestamptz)
      AND ($12::timestamptz IS NULL OR f.check_in_date < $12::timestamptz)
    ORDER BY f.created_at, f.id LIMIT $13::int
  ) first
  ORDER BY created_at, id LIMIT $13::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-to-renew
-- reads: creations by index, forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt", f.guest_email AS "guestEmail", f.fingerprint, c.answer,
  c.fingerprint AS "createFingerprint", c.secret_id AS "secretId"
FROM forms f LEFT JOIN LATERAL (SELECT * FROM creations WHERE form_id = f.id LIMIT 1) c ON true WHERE f.id > $1::uuid ORDER BY f.id LIMIT 100

-- forms-updated-since
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT f.created_at, f.id, f.listing_id FROM (SELECT * FROM forms f WHERE coalesce(f.updated_at, f.created_at) >= $3::timestamptz ORDER BY coalesce(f.updated_at, f.created_at) LIMIT $4::bigint) f
    WHERE (f.created_at, f.id) > ($5::timestamptz, $6::uuid) AND ($7::uuid IS NULL OR f.listing_id = $7::uuid)
      AND ($8::text IS NULL OR f.status = $8::text)
      AND ($9::text IS NULL OR f.external_id = $9::text)
      AND ($3::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $3::timestamptz)
      AND ($10::timestamptz IS NULL OR f.check_in_date >= $10::timestamptz)
      AND ($11::timestamptz IS NULL OR f.check_in_date < $11::timestamptz) ORDER BY f.created_at, f.id LIMIT $4::bigint) f
  CROSS JOIN LATERAL (SELECT m.listing_id FROM memberships m WHERE m.user_id = $12::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id LIMIT 1) m
  ORDER BY created_at, id LIMIT $13::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-with-external-id
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT f.created_at, f.id, f.listing_id FROM (SELECT * FROM forms f WHERE f.external_id = $3::text AND (f.created_at, f.id) > ($4::timestamptz, $5::uuid) ORDER BY f.created_at, f.id LIMIT $6::bigint) f
    WHERE (f.created_at, f.id) > ($4::timestamptz, $5::uuid) AND ($7::uuid IS NULL OR f.listing_id = $7::uuid)
      AND ($8::text IS NULL OR f.status = $8::text)
      AND ($3::text IS NULL OR f.external_id = $3::text)
      AND ($9::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $9::timestamptz)
      AND ($10::timestamptz IS NULL OR f.check_in_date >= $10::timestamptz)
      AND ($11::timestamptz IS NULL OR f.check_in_date < $11::timestamptz) ORDER BY f.created_at, f.id LIMIT $6::bigint) f
  CROSS JOIN LATERAL (SELECT m.listing_id FROM memberships m WHERE m.user_id = $12::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id LIMIT 1) m
  ORDER BY created_at, id LIMIT $13::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- forms-with-status
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt",
  nullif(f.created_at > coalesce($1::timestamptz, now()) - make_interval(secs => $2::int)
    AND NOT ($1::timestamptz IS NULL AND f.created_at < now()::timestamptz(3) AND (
SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
FROM pg_current_snapshot() AS s)), false) AS "mayHavePredecessors"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT f.created_at, f.id, f.listing_id FROM (SELECT * FROM forms f WHERE f.status = $3::text AND (f.created_at, f.id) > ($4::timestamptz, $5::uuid) ORDER BY f.created_at, f.id LIMIT $6::bigint) f
    WHERE (f.created_at, f.id) > ($4::timestamptz, $5::uuid) AND ($7::uuid IS NULL OR f.listing_id = $7::uuid)
      AND ($3::text IS NULL OR f.status = $3::text)
      AND ($8::text IS NULL OR f.external_id = $8::text)
      AND ($9::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $9::timestamptz)
      AND ($10::timestamptz IS NULL OR f.check_in_date >= $10::timestamptz)
      AND ($11::timestamptz IS NULL OR f.check_in_date < $11::timestamptz) ORDER BY f.created_at, f.id LIMIT $6::bigint) f
  CROSS JOIN LATERAL (SELECT m.listing_id FROM memberships m WHERE m.user_id = $12::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id LIMIT 1) m
  ORDER BY created_at, id LIMIT $13::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at, page.id

-- heartbeat-deliveries
-- reads: webhook_deliveries by index
UPDATE webhook_deliveries SET heartbeat_at = now()
WHERE id = ANY(ARRAY(
  SELECT n.id FROM webhook_deliveries n
  WHERE n.id = ANY($2::bigint[]) AND n.state::text = 'running' AND n.worker_id = $1
  FOR NO KEY UPDATE SKIP LOCKED))

-- heartbeat-emails
-- reads: emails by index
UPDATE emails SET heartbeat_at = now()
WHERE id = ANY(ARRAY(
  SELECT n.id FROM emails n
  WHERE n.id = ANY($2::bigint[]) AND n.state::text = 'running' AND n.worker_id = $1
  FOR NO KEY UPDATE SKIP LOCKED))

-- import-listings
-- reads: nothing
INSERT INTO listings (external_id,title,address,city,country,zip_code,timezone,active,district,max_people_in_listing,max_vehicles,allow_pets,language,public_id)
SELECT external_id,title,address,city,country,zip_code,timezone,active,district,max_people_in_listing,max_vehicles,allow_pets,language,public_id FROM jsonb_populate_recordset(NULL::listings, $1::jsonb)
ON CONFLICT DO NOTHING RETURNING id, external_id AS "externalId"

-- import-users
-- reads: nothing
INSERT INTO users (external_id,email,name)
SELECT external_id,email,name FROM jsonb_populate_recordset(NULL::users, $1::jsonb)
ON CONFLICT DO NOTHING RETURNING id, external_id AS "externalId"

-- in-flight-creates
-- reads: pg_database
SELECT virtualtransaction AS id FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 2
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint, objid::bigint) = (727073, 1) AND /* on the primary */ true

-- in-flight-writes
-- reads: pg_database
SELECT virtualtransaction AS id FROM pg_locks
WHERE relation = $1::text::regclass AND mode IN ('RowShareLock', 'RowExclusiveLock') AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- insert-endpoint
-- reads: nothing
INSERT INTO webhook_endpoints AS w (id, user_id, url, events, listing_ids, secret)
VALUES ($1::uuid, $2::uuid, $3, $4::text[], $5::uuid[], $6::bytea)
RETURNING w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt"

-- insert-form
-- reads: memberships by index, users by index
WITH in_flight AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(727073, 1), pg_current_xact_id()
), form AS (
  INSERT INTO forms AS f (id, public_id, listing_id,status,check_in_date,check_out_date,number_of_guests,number_of_vehicles,number_of_pets,external_id,guest_email,fingerprint,later_invitations)
  SELECT $1::uuid, $2::text, $7::uuid,$8::text,$9::timestamptz,$10::timestamptz,$11::int,$12::int,$13::int,$14::text,$15::bytea,$16::bytea,$17::int FROM in_flight
  RETURNING f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
), creation AS (
  INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
  VALUES ($1::uuid, $3::uuid, $16::bytea, $16::bytea, $4::jsonb, $5::text)
), invitation AS (
  
INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, created_at, is_urgent)
SELECT 'invitation', form_id, coalesce((SELECT u.id FROM (
SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.listing_id = invited.listing_id AND m.role = 'OWNER' AND u.email <> u.id || '@erased.invalid'
ORDER BY u.created_at, u.id LIMIT 1) AS u), invited.listing_id), check_in_date, correlation_id, now(), false
FROM (SELECT $1::uuid, $7::uuid, $9::timestamptz, $6::uuid
    WHERE $15::bytea IS NOT NULL AND $10::timestamptz > now()) AS invited (form_id, listing_id, check_in_date, correlation_id)
)
SELECT * FROM form

-- insert-key
-- reads: nothing
INSERT INTO api_keys (id, user_id, mode, label, expires_at, hash, prefix)
VALUES ($1::uuid, $2::uuid, $3::"KeyMode", $4, $5::timestamptz, $6::bytea, $7)

-- insert-listing
-- reads: nothing
INSERT INTO listings AS l (public_id, title,address,city,country,zip_code,timezone,active,district,max_people_in_listing,max_vehicles,allow_pets,language)
SELECT public_id, title,address,city,country,zip_code,timezone,active,district,max_people_in_listing,max_vehicles,allow_pets,language FROM jsonb_populate_record(NULL::listings, $1::jsonb)
RETURNING l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt", l.language AS "language"

-- insert-user
-- reads: nothing
INSERT INTO users AS u (email, name) VALUES ($1, $2) RETURNING u.id AS "id", u.email AS "email", u.name AS "name", u.external_id AS "externalId", u.created_at AS "createdAt"

-- invitation-to-preview
-- reads: forms by index, listings by index, memberships by index, users by index
SELECT 
f.public_id AS "publicId", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate",
f.number_of_guests AS "numberOfGuests",
json_build_object('title', l.title, 'address', l.address, 'zipCode', l.zip_code, 'city', l.city,
  'country', l.country, 'timezone', l.timezone, 'language', l.language) AS listing,
(SELECT json_build_object('name', u.name, 'email', u.email) FROM (
SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.listing_id = l.id AND m.role = 'OWNER' AND u.email <> u.id || '@erased.invalid'
ORDER BY u.created_at, u.id LIMIT 1) AS u) AS host FROM forms f JOIN listings l ON l.id = f.listing_id WHERE f.id = $1::uuid

-- key
-- reads: api_keys by index
SELECT k.id AS "id", k.user_id AS "userId", k.mode AS "mode", k.hash AS "hash", k.revoked_at AS "revokedAt", k.last_used_at AS "lastUsedAt", (1000 * extract(epoch FROM k.expires_at - clock_timestamp()))::float8 AS "remainingMs"
FROM api_keys k
WHERE k.hash = $1::bytea AND /* on the primary */ true

-- large-listings
-- reads: forms by index
SELECT l.id FROM unnest($1::uuid[]) AS l (id)
WHERE EXISTS (SELECT FROM forms f WHERE f.listing_id = l.id OFFSET 100)

-- last-emails-of-forms
-- reads: emails by index, forms by index
SELECT n.id::text FROM emails n JOIN forms f ON f.id = n.form_id
WHERE n.form_id = ANY($1::uuid[]) AND n.kind = 'invitation' AND NOT (coalesce(f.check_out_date <= now(), false) OR f.status <> 'SENT' OR EXISTS (
SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = 'invitation' AND later.id > n.id))

-- list-emails
-- reads: emails by index, forms by index
SELECT n.created_at AS "createdAt", n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply
FROM unnest($4::text[]::"EmailState"[]) AS s (state) CROSS JOIN LATERAL (
  SELECT * FROM emails n
  WHERE n.state = s.state AND n.state <> 'sent' AND (n.created_at, n.id) > ($1::timestamptz, $2::bigint)
  ORDER BY n.created_at, n.id LIMIT $3::int) AS n
ORDER BY n.created_at, n.id LIMIT $3::int

-- list-emails-of-form
-- reads: emails by index, forms by index
SELECT n.created_at AS "createdAt", n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply
FROM emails n
WHERE n.form_id = $4::uuid AND n.state::text = coalesce($5, n.state::text)
  AND (n.created_at, n.id) > ($1::timestamptz, $2::bigint)
ORDER BY n.created_at, n.id LIMIT $3::int

-- list-sent-emails
-- reads: emails by index, forms by index
SELECT n.ended_at AS "createdAt", n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply
FROM emails n
WHERE n.ended_at IS NOT NULL AND n.state = 'sent' AND (n.ended_at, n.id) < ($1::timestamptz, $2::bigint)
ORDER BY n.ended_at DESC, n.id DESC LIMIT $3::int

-- listing
-- reads: listings by index, memberships by index
SELECT l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt"
FROM memberships m JOIN listings l ON l.id = m.listing_id
WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND m.listing_id = $2::uuid AND /* on the primary */ true

-- listings
-- reads: listings by index, memberships by index
SELECT l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt"
FROM (
  SELECT m.listing_id, m.listing_created_at
  FROM memberships m
  WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND (m.listing_created_at, m.listing_id) > ($2::timestamptz, $3::uuid)
  ORDER BY m.listing_created_at, m.listing_id
  LIMIT $4::int
) page
JOIN listings l ON l.id = page.listing_id
WHERE /* on the primary */ true
ORDER BY page.listing_created_at, page.listing_id

-- listings-in-unknown-time-zones
-- reads: listings whole
WITH found AS MATERIALIZED (
  SELECT l.id, l.timezone FROM listings l
  WHERE NOT EXISTS (SELECT FROM unnest($1::text[]) AS known (name) WHERE known.name = lower(l.timezone))
)
SELECT id, timezone, (SELECT count(*)::int FROM found) AS total FROM found ORDER BY id LIMIT 3

-- listings-of-endpoint
-- reads: listings by index
SELECT l.id FROM listings l WHERE l.id = ANY($1::uuid[])

-- listings-of-file
-- reads: listings by index
SELECT t.id, t.external_id AS "externalId", t.title AS "title", t.address AS "address", t.city AS "city", t.country AS "country", t.zip_code AS "zipCode", t.timezone AS "timezone", t.active AS "active", t.district AS "district", t.max_people_in_listing AS "maxPeopleInListing", t.max_vehicles AS "maxVehicles", t.allow_pets AS "allowPets", t.language AS "language" FROM listings t WHERE t.external_id = ANY ($1::text[]) OR t.id = ANY ($2::uuid[])

-- listings-of-owner
-- reads: memberships by index
SELECT m.listing_id AS id FROM memberships m WHERE m.user_id = $1::uuid AND grants_scope(m.role) AND m.listing_id = ANY($2::uuid[])

-- listings-without-owner
-- reads: memberships by index
SELECT l.id::text FROM unnest($1::uuid[]) AS l (id)
WHERE NOT EXISTS (SELECT FROM memberships m WHERE m.listing_id = l.id AND m.role = 'OWNER')

-- lock-any-form
-- reads: forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt", f.guest_email AS "guestEmail", f.fingerprint AS "fingerprint", f.later_invitations AS "laterInvitations" FROM forms f WHERE f.id = $1::uuid FOR NO KEY UPDATE

-- lock-any-listing
-- reads: listings by index, memberships by index, webhook_endpoints by index
SELECT l.id, l.active, l.max_people_in_listing AS "maxPeopleInListing",
  l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", (
  EXISTS (SELECT FROM webhook_endpoints w WHERE w.user_id IS NULL)
  OR EXISTS (SELECT FROM memberships o JOIN webhook_endpoints w ON w.user_id = o.user_id WHERE o.listing_id = l.id)) AS "hasEndpoints" FROM listings l WHERE l.id = $1::uuid FOR SHARE

-- lock-deliveries
-- reads: webhook_deliveries by index
SELECT n.id::text FROM webhook_deliveries n
WHERE n.id = ANY($1::bigint[]) AND n.state::text = ANY($2::text[])
ORDER BY n.created_at, n.event_id
FOR NO KEY UPDATE

-- lock-due-addresses
-- reads: forms by index
SELECT id::text FROM forms
WHERE guest_email IS NOT NULL AND check_out_date < now() - make_interval(days => $1::int)
ORDER BY check_out_date LIMIT 200 FOR UPDATE SKIP LOCKED

-- lock-email
-- reads: emails by index
SELECT n.id::text FROM emails n
WHERE n.id = $1::bigint AND n.state IN ('waiting', 'retrying', 'failed', 'expired') FOR NO KEY UPDATE

-- lock-endpoint
-- reads: webhook_endpoints by index
SELECT w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt" FROM webhook_endpoints w WHERE w.id = $1::uuid AND ($2::uuid IS NULL OR w.user_id = $2::uuid) FOR NO KEY UPDATE

-- lock-endpoint-owner
-- reads: nothing
SELECT pg_advisory_xact_lock(727074, hashtext($1::text))

-- lock-endpoints-to-renew
-- reads: webhook_endpoints by index
SELECT w.id::text, w.secret, w.previous_secrets AS "previousSecrets" FROM webhook_endpoints w WHERE w.id = ANY($1::uuid[]) ORDER BY w.id FOR NO KEY UPDATE

-- lock-failed-emails
-- reads: emails by index
SELECT n.id::text FROM emails n
WHERE n.id = ANY($1::bigint[]) AND n.state::text = 'failed' ORDER BY n.id FOR NO KEY UPDATE SKIP LOCKED

-- lock-form
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt", f.guest_email AS "guestEmail", f.fingerprint AS "fingerprint", f.later_invitations AS "laterInvitations"
FROM forms f
WHERE f.id = $1::uuid
  AND (SELECT count(*) FROM memberships m WHERE m.user_id = $2::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id) = 1
FOR NO KEY UPDATE

-- lock-forms-to-renew
-- reads: creations by index, forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt", f.guest_email AS "guestEmail", f.fingerprint, c.answer,
  c.fingerprint AS "createFingerprint", c.secret_id AS "secretId"
FROM forms f LEFT JOIN LATERAL (SELECT * FROM creations WHERE form_id = f.id LIMIT 1) c ON true WHERE f.id = ANY($1::uuid[]) ORDER BY f.id FOR NO KEY UPDATE OF f

-- lock-key
-- reads: api_keys by index
SELECT k.id AS "id", k.prefix AS "prefix", k.mode AS "mode", k.expires_at AS "expiresAt", k.user_id AS "userId", k.label AS "label", k.created_at AS "createdAt", k.revoked_at AS "revokedAt", k.last_used_at AS "lastUsedAt", k.replaced_by AS "replacedBy", k.expires_at <= clock_timestamp() AS "isExpired"
FROM api_keys k WHERE k.id = $1::uuid FOR NO KEY UPDATE

-- lock-listing
-- reads: listings by index, memberships by index, webhook_endpoints by index
SELECT l.id, l.active, l.max_people_in_listing AS "maxPeopleInListing",
l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", (
EXISTS (SELECT FROM webhook_endpoints w WHERE w.user_id IS NULL)
OR EXISTS (SELECT FROM memberships o JOIN webhook_endpoints w ON w.user_id = o.user_id WHERE o.listing_id = l.id)) AS "hasEndpoints"
FROM memberships m JOIN listings l ON l.id = m.listing_id
WHERE m.user_id = $2::uuid AND grants_scope(m.role) AND m.listing_id = $1::uuid
FOR SHARE OF l, m

-- lock-listings-for-members
-- reads: listings by index
SELECT id FROM listings WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE

-- lock-secret-checks
-- reads: nothing
SELECT pg_advisory_xact_lock($1)

-- lock-stored-addresses
-- reads: forms by index
SELECT f.id::text, f.guest_email, (extract(epoch FROM f.created_at) * 1000)::float8 AS "createdMs" FROM forms f
WHERE f.id = ANY($1::uuid[]) AND f.guest_email IS NOT NULL
ORDER BY f.id FOR UPDATE

-- lock-user-to-erase
-- reads: users by index
SELECT id FROM users WHERE id = $1::uuid FOR UPDATE

-- lock-users
-- reads: users by index
SELECT id FROM users WHERE id = ANY ($1::uuid[]) AND email <> id || '@erased.invalid' ORDER BY id FOR KEY SHARE

-- long-limits
-- reads: nothing
SELECT set_config('statement_timeout', '600000', true),
  set_config('lock_timeout', '30000', true)

-- mark-bounced
-- reads: emails by index, forms by index
UPDATE emails n SET state = 'bounced', last_error = coalesce($2, CASE WHEN n.state = 'bounced' THEN n.last_error END, 'it bounced')
WHERE n.id = ANY($1::bigint[]) AND n.state::text IN ('sent', 'bounced')
RETURNING n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply

-- mark-timeline
-- reads: nothing
INSERT INTO timelines (id) VALUES (left(pg_walfile_name(pg_current_wal_lsn()), 8)) ON CONFLICT DO NOTHING

-- members-of-listing
-- reads: listings by index, memberships by index, users by index
SELECT m.user_id AS id, m.listing_created_at AS "createdAt", m.role::text,
  m.listing_id AS "listingId", l.title AS "listingTitle", m.user_id AS "userId", u.email AS "userEmail"
FROM memberships m JOIN users u ON u.id = m.user_id JOIN listings l ON l.id = m.listing_id
WHERE m.listing_id = $4::uuid AND (m.listing_created_at, m.user_id) > ($1::timestamptz, $2::uuid)
ORDER BY m.listing_created_at, m.user_id
LIMIT $3::int

-- memberships-of-user
-- reads: listings by index, memberships by index, users by index
SELECT m.listing_id AS id, m.listing_created_at AS "createdAt", m.role::text,
  m.listing_id AS "listingId", l.title AS "listingTitle", m.user_id AS "userId", u.email AS "userEmail"
FROM memberships m JOIN users u ON u.id = m.user_id JOIN listings l ON l.id = m.listing_id
WHERE m.user_id = $4::uuid AND (m.listing_created_at, m.listing_id) > ($1::timestamptz, $2::uuid)
ORDER BY m.listing_created_at, m.listing_id
LIMIT $3::int

-- newest-deliveries
-- reads: webhook_deliveries by index
SELECT n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt",
CASE WHEN n.state = 'sent' THEN n.ended_at END AS "deliveredAt"
FROM unnest($5::text[]::"DeliveryState"[]) AS s (state) CROSS JOIN LATERAL (
  SELECT * FROM webhook_deliveries n
  WHERE n.endpoint_id = $4::uuid AND n.state = s.state AND (n.created_at, n.event_id) < ($1::timestamptz, $2::uuid)
  ORDER BY n.created_at DESC, n.event_id DESC LIMIT $3::int) AS n
ORDER BY n.created_at DESC, n.event_id DESC LIMIT $3::int

-- newest-deliveries-in-state
-- reads: webhook_deliveries by index
SELECT n.id::text AS "rowId", n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt",
CASE WHEN n.state = 'sent' THEN n.ended_at END AS "deliveredAt" FROM webhook_deliveries n
WHERE n.state <> 'sent' AND n.state = $4::"DeliveryState" AND (n.created_at, n.id) < ($1::timestamptz, $2::bigint)
ORDER BY n.created_at DESC, n.id DESC
LIMIT $3::int

-- newest-deliveries-of-form
-- reads: webhook_deliveries by index
SELECT n.id::text AS "rowId", n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt",
CASE WHEN n.state = 'sent' THEN n.ended_at END AS "deliveredAt" FROM webhook_deliveries n
WHERE n.form_id = $4::uuid AND n.state::text = coalesce($5, n.state::text) AND (n.created_at, n.id) < ($1::timestamptz, $2::bigint)
ORDER BY n.created_at DESC, n.id DESC
LIMIT $3::int

-- newest-forms
-- reads: forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  WITH RECURSIVE existing (status) AS (
    SELECT ''
    UNION ALL
    SELECT (SELECT min(f.status) FROM forms f WHERE f.status > e.status) FROM existing e WHERE e.status IS NOT NULL
  )
  SELECT first.created_at, first.id FROM existing
  CROSS JOIN LATERAL (
    SELECT f.created_at, f.id FROM forms f
    WHERE f.status = existing.status AND (f.created_at, f.id) < ($1::timestamptz, $2::uuid)
    ORDER BY f.created_at DESC, f.id DESC LIMIT $3::int
  ) first
  ORDER BY created_at DESC, id DESC LIMIT $3::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-among-status
-- reads: forms by index, scoped_forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT f.created_at, f.id
  FROM (
    SELECT f.created_at, f.id FROM forms f WHERE f.status = $1::text AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid)
    ORDER BY f.created_at DESC, f.id DESC LIMIT 2000
  ) f
  CROSS JOIN LATERAL (
    SELECT FROM scoped_forms s
    WHERE s.user_id = $4::uuid AND s.created_at = f.created_at AND s.form_id = f.id LIMIT 1
  ) s
  ORDER BY created_at DESC, id DESC LIMIT $5::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-arriving
-- reads: emails by index, forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT * FROM forms f WHERE f.check_in_date >= now() AND f.check_in_date < now() + make_interval(days => $1::int) ORDER BY f.check_in_date LIMIT $2::bigint) f
  WHERE f.status = 'SENT' AND ($3::text IS NULL OR f.status = $3::text)
    AND ($4::uuid IS NULL OR f.listing_id = $4::uuid) AND ($5::uuid IS NULL OR EXISTS (
      SELECT m.listing_id FROM memberships m WHERE m.user_id = $5::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id))
    AND ($6::text IS NULL OR f.external_id = $6::text)
    AND ($7::text IS NULL OR (
        SELECT n.state::text FROM emails n WHERE n.form_id = f.id AND n.kind = 'invitation' ORDER BY n.id DESC LIMIT 1) = $7::text) AND (f.created_at, f.id) < ($8::timestamptz, $9::uuid)
  ORDER BY created_at DESC, id DESC LIMIT $10::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-by-listing
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT first.created_at, first.id
  FROM (SELECT m.listing_id FROM memberships m WHERE m.user_id = $3::uuid AND grants_scope(m.role) OFFSET 0) listing
  CROSS JOIN LATERAL (
    SELECT f.created_at, f.id FROM (SELECT f.created_at, f.id, f.status, f.external_id, f.updated_at, f.check_in_date FROM forms f
      WHERE f.listing_id = listing.listing_id AND (f.created_at, f.id) < ($1::timestamptz, $2::uuid) ORDER BY f.created_at DESC, f.id DESC LIMIT $4::bigint) f
    WHERE ($5::text IS NULL OR f.status = $5::text)
      AND ($6::text IS NULL OR f.external_id = $6::text)
      AND ($7::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $7::timestamptz)
      AND ($8::timestamptz IS NULL OR f.check_in_date >= $8::timestamptz)
      AND ($9::timestamptz IS NULL OR f.check_in_date < $9::timestamptz)
    ORDER BY f.created_at DESC, f.id DESC LIMIT $10::int
  ) first
  ORDER BY created_at DESC, id DESC LIMIT $10::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-in-status
-- reads: forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  WITH existing (status) AS (SELECT $1::text)
  SELECT first.created_at, first.id FROM existing
  CROSS JOIN LATERAL (
    SELECT f.created_at, f.id FROM forms f
    WHERE f.status = existing.status AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid)
    ORDER BY f.created_at DESC, f.id DESC LIMIT $4::int
  ) first
  ORDER BY created_at DESC, id DESC LIMIT $4::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-of-user
-- reads: forms by index, scoped_forms by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT s.created_at, s.form_id AS id FROM scoped_forms s
  WHERE s.user_id = $1::uuid AND (s.created_at, s.form_id) < ($2::timestamptz, $3::uuid)
  ORDER BY created_at DESC, id DESC LIMIT $4::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-on-day
-- reads: emails by index, forms by index, listings by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT * FROM forms f WHERE f.check_in_date >= $1::date - interval '14 hours'
      AND f.check_in_date < $1::date + interval '36 hours' ORDER BY f.check_in_date LIMIT $2::bigint) f
  CROSS JOIN LATERAL (SELECT timezone FROM listings WHERE id = f.listing_id LIMIT 1) l
  WHERE (f.check_in_date AT TIME ZONE CASE
        WHEN lower(l.timezone) IN (SELECT unnest($3::text[])) THEN l.timezone ELSE 'UTC'
      END)::date = $1::date
    AND ($4::int IS NULL OR (f.status = 'SENT' AND f.check_in_date >= now() AND f.check_in_date < now() + make_interval(days => $4::int)))
    AND ($5::text IS NULL OR f.status = $5::text)
    AND ($6::uuid IS NULL OR f.listing_id = $6::uuid) AND ($7::uuid IS NULL OR EXISTS (
      SELECT m.listing_id FROM memberships m WHERE m.user_id = $7::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id))
    AND ($8::text IS NULL OR f.external_id = $8::text)
    AND ($9::text IS NULL OR (
        SELECT n.state::text FROM emails n WHERE n.form_id = f.id AND n.kind = 'invitation' ORDER BY n.id DESC LIMIT 1) = $9::text) AND (f.created_at, f.id) < ($10::timestamptz, $11::uuid)
  ORDER BY created_at DESC, id DESC LIMIT $12::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-on-listing
-- reads: forms by index, listings by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT first.created_at, first.id
  FROM (SELECT l.id AS listing_id FROM listings l WHERE l.id = $3::uuid AND ($4::uuid IS NULL OR EXISTS (
      SELECT m.listing_id FROM memberships m WHERE m.user_id = $4::uuid AND grants_scope(m.role) AND m.listing_id = $3::uuid)) OFFSET 0) listing
  CROSS JOIN LATERAL (
    SELECT f.created_at, f.id FROM (SELECT f.created_at, f.id, f.status, f.external_id, f.updated_at, f.check_in_date FROM forms f
      WHERE f.listing_id = listing.listing_id AND (f.created_at, f.id) < ($1::timestamptz, $2::uuid) ORDER BY f.created_at DESC, f.id DESC LIMIT $5::bigint) f
    WHERE ($6::text IS NULL OR f.status = $6::text)
      AND ($7::text IS NULL OR f.external_id = $7::text)
      AND ($8::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $8::timestamptz)
      AND ($9::timestamptz IS NULL OR f.check_in_date >= $9::timestamptz)
      AND ($10::timestamptz IS NULL OR f.check_in_date < $10::timestamptz)
    ORDER BY f.created_at DESC, f.id DESC LIMIT $11::int
  ) first
  ORDER BY created_at DESC, id DESC LIMIT $11::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-with-email-state
-- reads: emails by index, forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT DISTINCT f.created_at, f.id
  FROM (SELECT * FROM emails n
    WHERE n.state = $1::text::"EmailState" AND n.state <> 'sent' AND n.form_id IS NOT NULL ORDER BY n.created_at, n.id LIMIT $2::bigint) n
  CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = n.form_id LIMIT 1) f
  WHERE ($3::text IS NULL OR f.status = $3::text)
    AND ($4::uuid IS NULL OR f.listing_id = $4::uuid) AND ($5::uuid IS NULL OR EXISTS (
      SELECT m.listing_id FROM memberships m WHERE m.user_id = $5::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id))
    AND ($6::text IS NULL OR f.external_id = $6::text)
    AND ($1::text IS NULL OR (
        SELECT n.state::text FROM emails n WHERE n.form_id = f.id AND n.kind = 'invitation' ORDER BY n.id DESC LIMIT 1) = $1::text) AND (f.created_at, f.id) < ($7::timestamptz, $8::uuid)
  ORDER BY created_at DESC, id DESC LIMIT $9::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-with-external-id
-- reads: emails by index, forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT f.created_at, f.id FROM (SELECT * FROM forms f WHERE f.external_id = $1::text AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid) ORDER BY f.created_at DESC, f.id DESC LIMIT $4::bigint) f WHERE ($5::text IS NULL OR f.status = $5::text)
    AND ($6::uuid IS NULL OR f.listing_id = $6::uuid) AND ($7::uuid IS NULL OR EXISTS (
      SELECT m.listing_id FROM memberships m WHERE m.user_id = $7::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id))
    AND ($1::text IS NULL OR f.external_id = $1::text)
    AND ($8::text IS NULL OR (
        SELECT n.state::text FROM emails n WHERE n.form_id = f.id AND n.kind = 'invitation' ORDER BY n.id DESC LIMIT 1) = $8::text)
  ORDER BY created_at DESC, id DESC LIMIT $9::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-forms-with-status
-- reads: forms by index, memberships by index
SELECT f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"
FROM (
  SELECT f.created_at, f.id
  FROM (SELECT f.created_at, f.id, f.listing_id FROM (SELECT * FROM forms f WHERE f.status = $1::text AND (f.created_at, f.id) < ($2::timestamptz, $3::uuid) ORDER BY f.created_at DESC, f.id DESC LIMIT $4::bigint) f
    WHERE (f.created_at, f.id) < ($2::timestamptz, $3::uuid) AND ($5::uuid IS NULL OR f.listing_id = $5::uuid)
      AND ($1::text IS NULL OR f.status = $1::text)
      AND ($6::text IS NULL OR f.external_id = $6::text)
      AND ($7::timestamptz IS NULL OR coalesce(f.updated_at, f.created_at) >= $7::timestamptz)
      AND ($8::timestamptz IS NULL OR f.check_in_date >= $8::timestamptz)
      AND ($9::timestamptz IS NULL OR f.check_in_date < $9::timestamptz) ORDER BY f.created_at DESC, f.id DESC LIMIT $4::bigint) f
  CROSS JOIN LATERAL (SELECT m.listing_id FROM memberships m WHERE m.user_id = $10::uuid AND grants_scope(m.role) AND m.listing_id = f.listing_id LIMIT 1) m
  ORDER BY created_at DESC, id DESC LIMIT $11::int
) page
CROSS JOIN LATERAL (SELECT * FROM forms WHERE id = page.id LIMIT 1) f
WHERE /* on the primary */ true
ORDER BY page.created_at DESC, page.id DESC

-- newest-listings
-- reads: listings whole
SELECT l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt", l.language AS "language"
FROM listings l
WHERE (l.created_at, l.id) < ($1::timestamptz, $2::uuid) AND coalesce(position(lower($4::text) IN lower(normalize(concat_ws(E'\n', l.title, l.city, l.external_id)))) > 0, true)
ORDER BY l.created_at DESC, l.id DESC
LIMIT $3::int

-- newest-listings-of-user
-- reads: listings by index, memberships by index
SELECT l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt", l.language AS "language"
FROM memberships m JOIN listings l ON l.id = m.listing_id
WHERE m.user_id = $5::uuid AND grants_scope(m.role) AND (m.listing_created_at, m.listing_id) < ($1::timestamptz, $2::uuid) AND coalesce(position(lower($4::text) IN lower(normalize(concat_ws(E'\n', l.title, l.city, l.external_id)))) > 0, true)
ORDER BY m.listing_created_at DESC, m.listing_id DESC
LIMIT $3::int

-- newest-users
-- reads: users whole
SELECT u.id AS "id", u.email AS "email", u.name AS "name", u.external_id AS "externalId", u.created_at AS "createdAt"
FROM users u
WHERE (u.created_at, u.id) < ($1::timestamptz, $2::uuid)
  AND coalesce(position(lower($4::text) IN lower(normalize(concat_ws(E'\n', u.email, u.name, u.external_id)))) > 0, true)
ORDER BY u.created_at DESC, u.id DESC
LIMIT $3::int

-- oldest-endpoints
-- reads: webhook_endpoints by index
SELECT w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt" FROM webhook_endpoints w
WHERE  (w.created_at, w.id) > ($1::timestamptz, $2::uuid)
ORDER BY w.created_at, w.id
LIMIT $3::int

-- oldest-endpoints-of-user
-- reads: webhook_endpoints by index
SELECT w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt" FROM webhook_endpoints w
WHERE w.user_id = $4::uuid AND (w.created_at, w.id) > ($1::timestamptz, $2::uuid)
ORDER BY w.created_at, w.id
LIMIT $3::int

-- oldest-keys
-- reads: api_keys by index
SELECT k.id AS "id", k.prefix AS "prefix", k.mode AS "mode", k.expires_at AS "expiresAt", k.user_id AS "userId", k.label AS "label", k.created_at AS "createdAt", k.revoked_at AS "revokedAt", k.last_used_at AS "lastUsedAt", k.replaced_by AS "replacedBy"
FROM api_keys k
WHERE  (k.created_at, k.id) > ($1::timestamptz, $2::uuid)
ORDER BY k.created_at, k.id
LIMIT $3::int

-- oldest-keys-of-user
-- reads: api_keys by index
SELECT k.id AS "id", k.prefix AS "prefix", k.mode AS "mode", k.expires_at AS "expiresAt", k.user_id AS "userId", k.label AS "label", k.created_at AS "createdAt", k.revoked_at AS "revokedAt", k.last_used_at AS "lastUsedAt", k.replaced_by AS "replacedBy"
FROM api_keys k
WHERE k.user_id = $4::uuid AND (k.created_at, k.id) > ($1::timestamptz, $2::uuid)
ORDER BY k.created_at, k.id
LIMIT $3::int

-- plan-user-erasure
-- reads: api_keys by index, memberships by index
SELECT (SELECT count(*)::int FROM api_keys WHERE user_id = $1::uuid AND revoked_at IS NULL) AS "revokedKeys",
  (SELECT count(*)::int FROM memberships WHERE user_id = $1::uuid) AS "removedMemberships",
  ARRAY(
    SELECT m.listing_id::text FROM memberships m
    WHERE m.user_id = $1::uuid AND (
      SELECT count(*) FROM memberships o
      WHERE o.listing_id = m.listing_id AND o.role = 'OWNER' AND o.user_id <> m.user_id) = 0
    ORDER BY 1) AS "listingsWithoutOwner"

-- probe
-- reads: nothing
SELECT

-- processes-without-secret
-- reads: secret_uses
SELECT secrets, max(last_at) AS "lastAt" FROM secret_uses
WHERE last_at > now() - interval '60 seconds' AND $1 <> ALL(secrets)
GROUP BY secrets ORDER BY secrets

-- quoted-links
-- reads: forms by index
SELECT public_id AS "publicId" FROM forms WHERE public_id = ANY($1::text[])

-- read-activity
-- reads: worker_activity
SELECT name, count::float8, extract(epoch FROM last_at)::float8 AS "lastAt",
  extract(epoch FROM now() - last_at)::float8 AS age
FROM worker_activity

-- record-deliveries
-- reads: forms by index, webhook_deliveries by index, webhook_endpoints by index
WITH outcome AS (
  SELECT * FROM jsonb_to_recordset($2::jsonb) AS o (
    id bigint, state text, reason text, "pauseSeconds" int, "status" int, "body" text, "hadAddress" boolean, "durationMs" int)
), own AS MATERIALIZED (
  SELECT o.*, n.attempts, n.queued_at + interval '3 days' AS deadline
  FROM outcome o JOIN webhook_deliveries n ON n.id = o.id
  WHERE n.id = ANY(ARRAY(SELECT id FROM outcome))
    AND ((n.state::text = 'running' AND n.worker_id = $1) OR (o.state = 'sent' AND n.state::text NOT IN ('sent', 'bounced')))
  ORDER BY n.id FOR NO KEY UPDATE OF n
), planned AS MATERIALIZED (
  SELECT own.*, CASE WHEN own.state = 'retrying' THEN nullif(
    least(greatest(now() + interval '1 second' * exp(least(10, own.attempts)) * (0.8 + 0.4 * random()), now() + interval '1 second' * own."pauseSeconds" * (1 + 0.2 * random())), own.deadline),
    own.deadline) END AS next
  FROM own
), recorded AS (
  UPDATE webhook_deliveries n
  SET state = CASE WHEN p.state = 'retrying' AND p.next IS NULL THEN 'failed' ELSE p.state END::"DeliveryState",
    attempts = n.attempts - (p.state IN ('expired', 'out_of_scope'))::int, crashes = 0, last_error = p.reason,
    next_attempt_at = p.next, ended_at = CASE WHEN p.next IS NULL THEN now() END, response_status = p.status, duration_ms = p."durationMs",
    response_body = CASE WHEN p.body IS NOT NULL AND (NOT p."hadAddress" OR EXISTS (
      SELECT FROM forms f WHERE f.id = n.form_id AND f.guest_email IS NOT NULL)) THEN p.body END
  FROM planned p WHERE n.id = p.id AND p.state <> 'deleted'
  RETURNING n.*
), deleted AS (
  DELETE FROM webhook_deliveries n USING planned p WHERE n.id = p.id AND p.state = 'deleted'
), judged AS (
  SELECT w.id, v.attempts, v.verdict, v."pauseSeconds", v."correlationId",
    CASE WHEN w.paused_until > now() - interval '12 hours' THEN w.failing_since END AS since
  FROM jsonb_to_recordset($3::jsonb) AS v (id uuid, revision int, attempts int, verdict text, "pauseSeconds" int, "correlationId" uuid)
    JOIN webhook_endpoints w ON w.id = v.id
  WHERE w.id = ANY(ARRAY(SELECT (v ->> 'id')::uuid FROM jsonb_array_elements($3::jsonb) AS v))
    AND w.disabled_at IS NULL AND w.revision = v.revision AND (v.verdict <> 'accepts' OR w.failing_since IS NOT NULL)
  ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED
), accepting AS (
  UPDATE webhook_endpoints w SET failing_since = NULL, paused_until = NULL
  FROM judged j WHERE w.id = j.id AND j.verdict = 'accepts'
), failing AS (
  UPDATE webhook_endpoints w
  SET failing_since = coalesce(j.since, now()),
    paused_until = greatest(
      now() + interval '1 second' * least(exp(least(j.attempts, 10)), 60) * (0.8 + 0.2 * random()),
      now() + interval '1 second' * j."pauseSeconds" * (1 + 0.2 * random())),
    (disabled_at, disabled_reason) = (SELECT now(), CASE j.verdict WHEN 'gone' THEN 'gone' ELSE 'failing' END
      WHERE j.verdict = 'gone' OR j.since < now() - interval '3 days')
  FROM judged j WHERE w.id = j.id AND j.verdict <> 'accepts'
  RETURNING w.id, w.user_id, w.disabled_reason, j."correlationId", j.since
), disabled AS (
  SELECT * FROM failing WHERE disabled_reason IS NOT NULL
), notified AS (
  INSERT INTO emails (kind, endpoint_id, tenant_id, check_in_date, correlation_id)
  SELECT 'endpoint_disabled', id, user_id, now(), "correlationId" FROM disabled WHERE user_id IS NOT NULL
), audited AS (
  
INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
SELECT 'system', 'webhook.disabled', subject_id, correlation_id, details
FROM (SELECT id, "correlationId", jsonb_build_object('reason', disabled_reason) FROM disabled) AS entry (subject_id, correlation_id, details)
)
SELECT coalesce((SELECT jsonb_object_agg(state, count) FROM (
  SELECT state, count(*) FROM recorded GROUP BY 1) AS by_state), '{}') AS states, (SELECT jsonb_agg(jsonb_build_object('id', id, 'isNew', since IS NULL, 'disabledReason', disabled_reason))
    FROM failing) AS failing

-- record-emails
-- reads: emails by index
WITH outcome AS (
  SELECT * FROM jsonb_to_recordset($2::jsonb) AS o (
    id bigint, state text, reason text, "pauseSeconds" int, "messageId" text, "reply" text)
), own AS MATERIALIZED (
  SELECT o.*, n.attempts, 'infinity'::timestamptz AS deadline
  FROM outcome o JOIN emails n ON n.id = o.id
  WHERE n.id = ANY(ARRAY(SELECT id FROM outcome))
    AND ((n.state::text = 'running' AND n.worker_id = $1) OR (o.state = 'sent' AND n.state::text NOT IN ('sent', 'bounced')))
  ORDER BY n.id FOR NO KEY UPDATE OF n
), planned AS MATERIALIZED (
  SELECT own.*, CASE WHEN own.state = 'retrying' THEN nullif(
    least(greatest(now() + interval '1 second' * exp(least(10, own.attempts)) * (0.8 + 0.4 * random()), now() + interval '1 second' * own."pauseSeconds" * (1 + 0.2 * random())), own.deadline),
    own.deadline) END AS next
  FROM own
), recorded AS (
  UPDATE emails n
  SET state = CASE WHEN p.state = 'retrying' AND p.next IS NULL THEN 'failed' ELSE p.state END::"EmailState",
    attempts = n.attempts - (p.state IN ('expired', 'out_of_scope'))::int, crashes = 0, last_error = p.reason,
    next_attempt_at = p.next, ended_at = CASE WHEN p.next IS NULL THEN now() END, message_id = coalesce(p."messageId", n.message_id), reply = p.reply
  FROM planned p WHERE n.id = p.id AND p.state <> 'deleted'
  RETURNING n.*
), deleted AS (
  DELETE FROM emails n USING planned p WHERE n.id = p.id AND p.state = 'deleted'
), audited AS (
INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
SELECT 'system', 'email.expired', subject_id, correlation_id, details
FROM (SELECT coalesce(form_id, endpoint_id), correlation_id, jsonb_build_object('emailId', id::text) FROM recorded n WHERE n.state = 'expired') AS entry (subject_id, correlation_id, details))
SELECT coalesce((SELECT jsonb_object_agg(state, count) FROM (
  SELECT state, count(*) FROM recorded GROUP BY 1) AS by_state), '{}') AS states

-- record-event
-- reads: memberships by index, webhook_endpoints by index
WITH entry AS (
  
INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details, actor_name)
SELECT $1::text, $2::uuid, $3::text, subject_id, $5::uuid, details, $7::text
FROM unnest($4::uuid[], $6::jsonb[]) AS entry (subject_id, details)
  RETURNING id, subject_id, correlation_id, gen_random_uuid() AS event_id, clock_timestamp() AS changed_at
), owner AS (
  SELECT m.user_id, array_agg(m.listing_id) AS listing_ids
  FROM memberships m WHERE m.listing_id = ANY($8::uuid[]) AND grants_scope(m.role) GROUP BY 1
), endpoint AS (
  SELECT w.*, owner.listing_ids AS listings_in_scope FROM owner JOIN webhook_endpoints w ON w.user_id = owner.user_id
  UNION ALL
  SELECT w.*, $8::uuid[] FROM webhook_endpoints w WHERE w.user_id IS NULL
)
INSERT INTO webhook_deliveries
  (endpoint_id, event_id, event_type, form_id, audit_entry_id, correlation_id, created_at)
SELECT endpoint.id, entry.event_id, $9::text, entry.subject_id, entry.id, entry.correlation_id, entry.changed_at
FROM entry, endpoint
WHERE endpoint.disabled_at IS NULL
  AND (endpoint.events = '{}' OR $9::text = ANY(endpoint.events))
  AND (endpoint.listing_ids = '{}' OR endpoint.listing_ids && endpoint.listings_in_scope)

-- redeliver
-- reads: webhook_deliveries by index
UPDATE webhook_deliveries
SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now(), queued_at = now(), ended_at = NULL, is_urgent = $2
WHERE id = ANY($1::bigint[])

-- register-secrets
-- reads: secret_checks
INSERT INTO secret_checks (value, newest_since)
SELECT decode(hex, 'hex'), CASE WHEN position = 1 THEN clock_timestamp() END
FROM unnest($1::text[]) WITH ORDINALITY AS listed(hex, position)
ON CONFLICT (value) DO UPDATE SET newest_since =
  CASE WHEN $2::boolean THEN coalesce(excluded.newest_since, secret_checks.newest_since)
  ELSE coalesce(secret_checks.newest_since, excluded.newest_since) END

-- registered-secrets
-- reads: secret_checks
SELECT encode(value, 'hex') AS value FROM secret_checks WHERE newest_since IS NOT NULL

-- reimport-listings
-- reads: listings by index
UPDATE listings t SET (external_id,title,address,city,country,zip_code,timezone,active,district,max_people_in_listing,max_vehicles,allow_pets,language) = (
  SELECT p.external_id,p.title,p.address,p.city,p.country,p.zip_code,p.timezone,p.active,p.district,p.max_people_in_listing,p.max_vehicles,p.allow_pets,p.language FROM jsonb_populate_record(t, changed.fields) p
)
FROM unnest($1::uuid[], $2::jsonb[]) AS changed (id, fields)
WHERE t.id = changed.id
RETURNING t.id

-- reimport-users
-- reads: users by index
UPDATE users t SET (external_id,email,name) = (
  SELECT p.external_id,p.email,p.name FROM jsonb_populate_record(t, changed.fields) p
)
FROM unnest($1::uuid[], $2::jsonb[]) AS changed (id, fields)
WHERE t.id = changed.id AND t.email <> t.id || '@erased.invalid'
RETURNING t.id

-- release-deliveries
-- reads: webhook_deliveries by index
UPDATE webhook_deliveries n
SET attempts = n.attempts - 1, crashes = n.crashes + 1,
  state = CASE WHEN (n.crashes + 1 >= $2::int) THEN 'failed' WHEN n.attempts > 1 THEN 'retrying' ELSE 'waiting' END::"DeliveryState",
  last_error = CASE WHEN (n.crashes + 1 >= $2::int) THEN $3 ELSE n.last_error END,
  next_attempt_at = CASE WHEN NOT (n.crashes + 1 >= $2::int) THEN now() + interval '1 second' * exp(least(10, n.crashes + 1)) * (0.8 + 0.4 * random()) END,
  ended_at = CASE WHEN (n.crashes + 1 >= $2::int) THEN now() END
WHERE n.id = ANY(ARRAY(
  SELECT id FROM webhook_deliveries WHERE state = 'running' AND state <> 'sent' AND heartbeat_at < now() - make_interval(secs => $1)
  FOR NO KEY UPDATE SKIP LOCKED))
RETURNING jsonb_strip_nulls(jsonb_build_object(
  'deliveryId', n.event_id, 'formId', n.form_id, 'endpointId', n.endpoint_id, 'correlationId', n.correlation_id)) AS facts, n.crashes, CASE WHEN n.state = 'failed' THEN n.last_error END AS "givenUp"

-- release-emails
-- reads: emails by index
UPDATE emails n
SET attempts = n.attempts - 1, crashes = n.crashes + 1,
  state = CASE WHEN (n.crashes + 1 >= $2::int) THEN 'failed' WHEN n.attempts > 1 THEN 'retrying' ELSE 'waiting' END::"EmailState",
  last_error = CASE WHEN (n.crashes + 1 >= $2::int) THEN $3 ELSE n.last_error END,
  next_attempt_at = CASE WHEN NOT (n.crashes + 1 >= $2::int) THEN now() + interval '1 second' * exp(least(10, n.crashes + 1)) * (0.8 + 0.4 * random()) END,
  ended_at = CASE WHEN (n.crashes + 1 >= $2::int) THEN now() END
WHERE n.id = ANY(ARRAY(
  SELECT id FROM emails WHERE state = 'running' AND state <> 'sent' AND heartbeat_at < now() - make_interval(secs => $1)
  FOR NO KEY UPDATE SKIP LOCKED))
RETURNING jsonb_strip_nulls(jsonb_build_object(
  'emailId', n.id::text, 'formId', n.form_id, 'endpointId', n.endpoint_id, 'correlationId', n.correlation_id)) AS facts, n.crashes, CASE WHEN n.state = 'failed' THEN n.last_error END AS "givenUp"

-- release-fingerprint
-- reads: creations by index
UPDATE creations SET current_fingerprint = NULL WHERE form_id = $1::uuid

-- remove-member
-- reads: memberships by index
DELETE FROM memberships WHERE user_id = $1::uuid AND listing_id = $2::uuid RETURNING role::text

-- renew-creation
-- reads: creations by index
UPDATE creations c SET fingerprint = $2::bytea, secret_id = $3::text, current_fingerprint =
  CASE WHEN c.current_fingerprint IS NOT NULL AND NOT EXISTS (
    SELECT FROM creations o
    WHERE o.holder_id = c.holder_id AND o.current_fingerprint = $2::bytea AND o.form_id <> c.form_id
  ) THEN $2::bytea END
WHERE c.form_id = $1::uuid

-- renew-endpoint
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints SET secret = $2::bytea, previous_secrets = $3::bytea[] WHERE id = $1::uuid

-- renew-forms
-- reads: forms by index
UPDATE forms f SET guest_email = renewed.guest_email, fingerprint = renewed.fingerprint
FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS renewed(id, guest_email, fingerprint) WHERE f.id = renewed.id

-- replace-invitation
-- reads: emails by index, forms by index, memberships by index, users by index
WITH waiting AS (
  SELECT n.id FROM emails n
  WHERE n.form_id = $1::uuid AND n.kind = 'invitation' AND n.state::text IN ('waiting', 'retrying') AND $4::timestamptz > now()
  FOR UPDATE SKIP LOCKED
), replaced AS (
  DELETE FROM emails WHERE id IN (SELECT id FROM waiting) RETURNING id
), added AS (
  
INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, created_at, is_urgent)
SELECT 'invitation', form_id, coalesce((SELECT u.id FROM (
SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.listing_id = invited.listing_id AND m.role = 'OWNER' AND u.email <> u.id || '@erased.invalid'
ORDER BY u.created_at, u.id LIMIT 1) AS u), invited.listing_id), check_in_date, correlation_id, greatest(now(), (SELECT f.created_at FROM forms f WHERE f.id = invited.form_id) + interval '1 ms'), false
FROM (SELECT $1::uuid, $2::uuid, $3::timestamptz, $5::uuid
    WHERE $4::timestamptz > now() AND ($6::int < 5 OR EXISTS (SELECT FROM replaced))) AS invited (form_id, listing_id, check_in_date, correlation_id)
  RETURNING id
), failed AS (
  UPDATE emails n SET state = 'expired'
  WHERE n.form_id = $1::uuid AND n.kind = 'invitation' AND n.state::text = 'failed' AND EXISTS (SELECT FROM added)
)
SELECT (SELECT count(*) FROM added)::int - (SELECT count(*) FROM replaced)::int AS more

-- replace-key
-- reads: api_keys by index
UPDATE api_keys
SET replaced_by = $2::uuid, expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $3::int))
WHERE id = $1::uuid
RETURNING id, expires_at AS "expiresAt"

-- replayed
-- reads: timelines whole
SELECT pg_is_in_recovery() AS "isStandby", pg_last_wal_replay_lsn() >= $1::pg_lsn
  AND EXISTS (SELECT FROM timelines t WHERE t.id = $2::text AND t.mark = $3::uuid) AS "isReplayed"

-- retry-email
-- reads: emails by index, forms by index
UPDATE emails n
SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now(), ended_at = NULL, is_urgent = true
WHERE n.id = ANY($1::bigint[])
  AND NOT (n.kind = 'invitation' AND (SELECT (coalesce(f.check_out_date <= now(), false) OR f.status <> 'SENT' OR EXISTS (
SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = 'invitation' AND later.id > n.id)) FROM forms f WHERE f.id = n.form_id))
RETURNING n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply

-- retry-failed-emails
-- reads: emails by index, forms by index
UPDATE emails n
SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now(), ended_at = NULL, is_urgent = false
WHERE n.id = ANY($1::bigint[])
  AND NOT (n.kind = 'invitation' AND (SELECT (coalesce(f.check_out_date <= now(), false) OR f.status <> 'SENT' OR EXISTS (
SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = 'invitation' AND later.id > n.id)) FROM forms f WHERE f.id = n.form_id))
RETURNING n.id::text, n.form_id::text AS "formId", (SELECT f.listing_id FROM forms f WHERE f.id = n.form_id) AS "listingId",
(SELECT f.check_in_date FROM forms f WHERE f.id = n.form_id) AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply

-- revoke-key
-- reads: api_keys by index
UPDATE api_keys k SET revoked_at = clock_timestamp() WHERE k.id = $1::uuid RETURNING k.id AS "id", k.prefix AS "prefix", k.mode AS "mode", k.expires_at AS "expiresAt", k.user_id AS "userId", k.label AS "label", k.created_at AS "createdAt", k.revoked_at AS "revokedAt", k.last_used_at AS "lastUsedAt", k.replaced_by AS "replacedBy"

-- revoke-keys-of-user
-- reads: api_keys by index
UPDATE api_keys SET revoked_at = now() WHERE user_id = $1::uuid AND revoked_at IS NULL RETURNING id::text

-- roles-of-file
-- reads: memberships by index
SELECT (
  SELECT m.role::text FROM memberships m WHERE m.user_id = wanted.user_id AND m.listing_id = wanted.listing_id
) AS role
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS wanted (user_id, listing_id, position)
ORDER BY wanted.position

-- rotate-endpoint-secret
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints w
SET secret = $2::bytea, (previous_secrets, previous_secrets_until) = (
  SELECT array_agg(previous.secret), array_agg(previous.until)
  FROM (
    SELECT w.secret, now() + interval '24 hours' AS until
    UNION ALL
    (SELECT p.secret, p.until FROM unnest(w.previous_secrets, w.previous_secrets_until) AS p (secret, until)
     WHERE p.until > now() ORDER BY p.until DESC LIMIT 4)
  ) previous
)
WHERE w.id = $1::uuid RETURNING w.previous_secrets_until[1] AS until

-- sealed-address
-- reads: forms by index
SELECT f.id::text, f.guest_email, (extract(epoch FROM f.created_at) * 1000)::float8 AS "createdMs" FROM forms f WHERE f.id = $1::uuid AND f.guest_email IS NOT NULL

-- sealed-endpoints
-- reads: webhook_endpoints by index
SELECT w.id::text, w.secret, w.previous_secrets AS "previousSecrets" FROM webhook_endpoints w WHERE w.id > $1::uuid ORDER BY w.id LIMIT 200

-- secret-checks
-- reads: secret_checks
SELECT encode(value, 'hex') AS value, newest_since IS NOT NULL AS "wasNewest"
FROM secret_checks ORDER BY newest_since DESC NULLS LAST

-- serialize-equal-creates
-- reads: nothing
SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS lock

-- set-endpoint-url
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints w SET url = $2, failing_since = NULL, paused_until = NULL, revision = revision + 1 WHERE w.id = $1::uuid AND w.url <> $2

-- set-members
-- reads: listings by index
INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
SELECT new.user_id, l.id, l.created_at, new.role
FROM listings l, unnest($2::uuid[], $3::"MembershipRole"[]) AS new (user_id, role)
WHERE l.id = $1::uuid
ON CONFLICT (user_id, listing_id) DO UPDATE SET role = excluded.role

-- start-session
-- reads: operator_sessions whole
WITH ended AS (DELETE FROM operator_sessions WHERE NOT (created_at > now() - interval '8 hours' AND last_used_at > now() - interval '30 minutes'))
INSERT INTO operator_sessions (hash, name) VALUES ($1::bytea, $2)

-- store-erasures
-- reads: nothing
INSERT INTO erasures (address_hash, erased_at)
SELECT * FROM unnest($1::text[], $2::timestamptz[])
ON CONFLICT (address_hash) DO UPDATE SET erased_at = greatest(erasures.erased_at, excluded.erased_at)
RETURNING erased_at AS "erasedAt", address_hash AS "addressHash"

-- store-needs
-- reads: secret_checks
UPDATE secret_checks s SET needed_until = CASE WHEN NOT has_data THEN coalesce(until, now()) END
FROM unnest($1::text[], $2::boolean[], $3::timestamptz[]) AS use(value, has_data, until)
WHERE s.value = decode(use.value, 'hex')

-- stored-addresses
-- reads: forms by index
SELECT f.id::text, f.guest_email, (extract(epoch FROM f.created_at) * 1000)::float8 AS "createdMs" FROM forms f
WHERE f.guest_email IS NOT NULL AND f.id > $1::uuid
ORDER BY f.id LIMIT 200

-- test-endpoint
-- reads: nothing
INSERT INTO webhook_deliveries AS n (endpoint_id, event_id, event_type, is_urgent, correlation_id)
VALUES ($1::uuid, gen_random_uuid(), 'webhook.test', true, $2::uuid)
RETURNING n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt",
CASE WHEN n.state = 'sent' THEN n.ended_at END AS "deliveredAt"

-- time-zone-names
-- reads: nothing
SELECT name FROM pg_timezone_names

-- untranslated-listings
-- reads: listings whole
SELECT language, listings, (sum(listings) OVER ())::int AS total
FROM (
  SELECT language, count(*)::int AS listings FROM listings
  WHERE active AND language IS NOT NULL GROUP BY language
) AS used
WHERE NOT EXISTS (
  SELECT FROM unnest($1::text[]) AS known (language) WHERE starts_with(used.language || '-', known.language || '-')
)
ORDER BY listings DESC, language LIMIT 3

-- update-endpoint
-- reads: webhook_endpoints by index
UPDATE webhook_endpoints w
SET (events, listing_ids) = (SELECT p.events, p.listing_ids FROM jsonb_populate_record(w, $2::jsonb) p)
WHERE w.id = $1::uuid
RETURNING w.id AS "id", w.user_id AS "userId", w.url AS "url", w.events AS "events", w.listing_ids AS "listingIds", w.disabled_at AS "disabledAt", w.disabled_reason AS "disabledReason", w.failing_since AS "failingSince", w.created_at AS "createdAt"

-- update-form
-- reads: emails by index, forms by index, memberships by index, users by index
WITH moved AS (
UPDATE emails n SET check_in_date = moved.check_in_date, tenant_id = moved.tenant_id
FROM (SELECT $4::timestamptz AS check_in_date, coalesce((SELECT u.id FROM (
SELECT u.id, u.name, u.email FROM memberships m JOIN users u ON u.id = m.user_id
WHERE m.listing_id = $2::uuid AND m.role = 'OWNER' AND u.email <> u.id || '@erased.invalid'
ORDER BY u.created_at, u.id LIMIT 1) AS u), $2::uuid) AS tenant_id) AS moved
WHERE n.form_id = $1::uuid AND n.state::text IN ('waiting', 'retrying', 'failed', 'expired') AND moved.check_in_date IS NOT NULL
  AND (n.check_in_date, n.tenant_id) <> (moved.check_in_date, moved.tenant_id))
UPDATE forms f
SET listing_id = $2::uuid,status = $3::text,check_in_date = $4::timestamptz,check_out_date = $5::timestamptz,number_of_guests = $6::int,number_of_vehicles = $7::int,number_of_pets = $8::int,external_id = $9::text,guest_email = $10::bytea,fingerprint = $11::bytea,later_invitations = $12::int,
  updated_at = CASE WHEN f.listing_id IS DISTINCT FROM $2::uuid OR f.status IS DISTINCT FROM $3::text OR f.check_in_date IS DISTINCT FROM $4::timestamptz OR f.check_out_date IS DISTINCT FROM $5::timestamptz OR f.number_of_guests IS DISTINCT FROM $6::int OR f.number_of_vehicles IS DISTINCT FROM $7::int OR f.number_of_pets IS DISTINCT FROM $8::int OR f.external_id IS DISTINCT FROM $9::text
    THEN greatest(coalesce(f.updated_at, f.created_at), clock_timestamp()) ELSE f.updated_at END
WHERE id = $1::uuid
RETURNING f.id AS "id", f.listing_id AS "listingId", f.public_id AS "publicId", f.external_id AS "externalId", f.status AS "status", f.check_in_date AS "checkInDate", f.check_out_date AS "checkOutDate", f.number_of_guests AS "numberOfGuests", f.number_of_vehicles AS "numberOfVehicles", f.number_of_pets AS "numberOfPets", f.created_at AS "createdAt", coalesce(f.updated_at, f.created_at) AS "updatedAt"

-- update-listing
-- reads: listings by index
UPDATE listings l
SET (title,address,city,country,zip_code,timezone,active,district,max_people_in_listing,max_vehicles,allow_pets,language) = (SELECT p.title,p.address,p.city,p.country,p.zip_code,p.timezone,p.active,p.district,p.max_people_in_listing,p.max_vehicles,p.allow_pets,p.language FROM jsonb_populate_record(l, $2::jsonb) p)
WHERE l.id = $1::uuid
RETURNING l.id AS "id", l.public_id AS "publicId", l.external_id AS "externalId", l.title AS "title", l.address AS "address", l.city AS "city", l.country AS "country", l.zip_code AS "zipCode", l.district AS "district", l.timezone AS "timezone", l.active AS "active", l.max_people_in_listing AS "maxPeopleInListing", l.max_vehicles AS "maxVehicles", l.allow_pets AS "allowPets", l.created_at AS "createdAt", l.language AS "language"

-- update-user
-- reads: users by index
UPDATE users u SET (email, name) = (SELECT p.email, p.name FROM jsonb_populate_record(u, $2::jsonb) p)
WHERE u.id = $1::uuid AND u.email <> u.id || '@erased.invalid'
RETURNING u.id AS "id", u.email AS "email", u.name AS "name", u.external_id AS "externalId", u.created_at AS "createdAt"

-- use-session
-- reads: operator_sessions by index
UPDATE operator_sessions SET last_used_at = greatest(last_used_at, now() - make_interval(secs => $2))
WHERE hash = $1::bytea

-- user
-- reads: users by index
SELECT u.id AS "id", u.email AS "email", u.name AS "name", u.external_id AS "externalId", u.created_at AS "createdAt" FROM users u WHERE u.id = $1::uuid

-- user-by-email
-- reads: users by index
SELECT id FROM users WHERE lower(email COLLATE "C") = $1

-- users-of-file
-- reads: users by index
SELECT t.id, t.external_id AS "externalId", t.email AS "email", t.name AS "name" FROM users t WHERE (t.external_id = ANY ($1::text[]) OR t.id = ANY ($2::uuid[]) OR lower(t.email COLLATE "C") = ANY ($3::text[])) AND t.email <> t.id || '@erased.invalid'

-- withdraw-secrets
-- reads: secret_uses
DELETE FROM secret_uses WHERE process_id = $1::uuid

-- worker-start
-- reads: nothing
SELECT 1
