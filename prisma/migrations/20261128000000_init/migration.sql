CREATE TYPE "MembershipRole" AS ENUM ('OWNER', 'WRITER', 'READER');

CREATE TYPE "KeyMode" AS ENUM ('READ_WRITE', 'READ_ONLY');

CREATE TABLE "users" (
    "id" UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    "email" TEXT NOT NULL,
    "name" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "external_id" TEXT
);

CREATE TABLE "listings" (
    "id" UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    "public_id" TEXT NOT NULL,
    "title" TEXT NOT NULL,
    "address" TEXT NOT NULL,
    "city" TEXT NOT NULL,
    "country" TEXT NOT NULL,
    "zip_code" TEXT NOT NULL,
    "district" TEXT,
    "timezone" TEXT NOT NULL,
    "active" BOOLEAN NOT NULL DEFAULT true,
    "max_people_in_listing" INTEGER,
    "max_vehicles" INTEGER,
    "allow_pets" BOOLEAN,
    "language" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp(),
    "external_id" TEXT
);

CREATE TABLE "memberships" (
    "user_id" UUID NOT NULL REFERENCES "users" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "listing_id" UUID NOT NULL,
    "role" "MembershipRole" NOT NULL,
    "listing_created_at" TIMESTAMPTZ(3) NOT NULL,
    CONSTRAINT "memberships_pkey" PRIMARY KEY ("user_id","listing_id")
);

CREATE TABLE "api_keys" (
    "id" UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    "user_id" UUID NOT NULL REFERENCES "users" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "hash" BYTEA NOT NULL,
    "prefix" TEXT NOT NULL,
    "mode" "KeyMode" NOT NULL,
    "label" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "last_used_at" TIMESTAMPTZ(3),
    "replaced_by" UUID
);

CREATE TABLE "forms" (
    "id" UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    "public_id" TEXT NOT NULL,
    "listing_id" UUID NOT NULL REFERENCES "listings" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "status" TEXT NOT NULL DEFAULT 'SENT',
    "check_in_date" TIMESTAMPTZ(3),
    "check_out_date" TIMESTAMPTZ(3),
    "number_of_guests" INTEGER,
    "number_of_vehicles" INTEGER,
    "number_of_pets" INTEGER,
    "guest_email" BYTEA,
    "fingerprint" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE "scoped_forms" (
    "user_id" UUID NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "form_id" UUID NOT NULL,
    CONSTRAINT "scoped_forms_pkey" PRIMARY KEY ("user_id","created_at","form_id")
);

CREATE TABLE "creations" (
    "form_id" UUID PRIMARY KEY REFERENCES "forms" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "holder_id" UUID NOT NULL REFERENCES "users" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "fingerprint" BYTEA NOT NULL,
    "current_fingerprint" BYTEA,
    "answer" JSONB NOT NULL,
    "secret_id" TEXT NOT NULL
);

CREATE TABLE "idempotency_keys" (
    "holder_id" UUID NOT NULL REFERENCES "users" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "key" TEXT NOT NULL,
    "form_id" UUID NOT NULL REFERENCES "creations" ("form_id") ON DELETE CASCADE ON UPDATE CASCADE,
    "retention_starts_at" TIMESTAMPTZ(3) NOT NULL,
    CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY ("holder_id","key")
);

CREATE TABLE "audit_entries" (
    "id" BIGSERIAL PRIMARY KEY,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actor" TEXT NOT NULL,
    "actor_id" UUID,
    "actor_name" TEXT,
    "action" TEXT NOT NULL,
    "subject_id" UUID NOT NULL,
    "correlation_id" UUID NOT NULL,
    "details" JSONB NOT NULL DEFAULT '{}'
);

CREATE TABLE "erasures" (
    "address_hash" TEXT PRIMARY KEY,
    "erased_at" TIMESTAMPTZ(3) NOT NULL
);

CREATE TABLE "worker_activity" (
    "name" TEXT PRIMARY KEY,
    "count" BIGINT NOT NULL,
    "last_at" TIMESTAMPTZ(3) NOT NULL
);

CREATE TABLE "secret_checks" (
    "value" BYTEA PRIMARY KEY,
    "newest_since" TIMESTAMPTZ(3),
    "registered_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "needed_until" TIMESTAMPTZ(3)
);

CREATE UNIQUE INDEX "users_external_id_key" ON "users"("external_id");

-- Upper and lower case of an address are one. Addresses are ASCII, and the "C" collation lowers only that, whatever the
-- locale of the database.
CREATE UNIQUE INDEX "users_email_lower_key" ON "users" (lower("email" COLLATE "C"));
CREATE UNIQUE INDEX "listings_external_id_key" ON "listings"("external_id");
CREATE UNIQUE INDEX "listings_public_id_key" ON "listings"("public_id");
CREATE UNIQUE INDEX "listings_id_created_at_key" ON "listings"("id", "created_at");
CREATE INDEX "memberships_user_id_listing_created_at_listing_id_idx" ON "memberships"("user_id", "listing_created_at", "listing_id");
CREATE INDEX "memberships_listing_id_user_id_idx" ON "memberships"("listing_id", "user_id");
CREATE UNIQUE INDEX "api_keys_hash_key" ON "api_keys"("hash");
CREATE INDEX "api_keys_user_id_created_at_id_idx" ON "api_keys"("user_id", "created_at", "id");
CREATE INDEX "api_keys_created_at_id_idx" ON "api_keys"("created_at", "id");
CREATE INDEX "api_keys_prefix_idx" ON "api_keys"("prefix");
CREATE UNIQUE INDEX "forms_public_id_key" ON "forms"("public_id");
CREATE INDEX "forms_listing_id_created_at_id_idx" ON "forms"("listing_id", "created_at", "id");
CREATE INDEX "forms_email_due_idx" ON "forms"("check_out_date") WHERE (guest_email IS NOT NULL);
CREATE INDEX "forms_status_created_at_id_idx" ON "forms"("status", "created_at", "id");
CREATE INDEX "forms_check_in_date_idx" ON "forms"("check_in_date");
CREATE UNIQUE INDEX "creations_holder_id_current_fingerprint_key" ON "creations"("holder_id", "current_fingerprint");
CREATE INDEX "idempotency_keys_form_id_idx" ON "idempotency_keys"("form_id");
CREATE INDEX "idempotency_keys_retention_starts_at_idx" ON "idempotency_keys"("retention_starts_at");
CREATE INDEX "audit_entries_subject_id_id_idx" ON "audit_entries"("subject_id", "id");
CREATE INDEX "audit_entries_correlation_id_idx" ON "audit_entries"("correlation_id");

ALTER TABLE "memberships" ADD CONSTRAINT "memberships_listing_id_listing_created_at_fkey" FOREIGN KEY ("listing_id", "listing_created_at") REFERENCES "listings"("id", "created_at") ON DELETE CASCADE ON UPDATE CASCADE;

-- The outbox (server/outbox/). A row waits for an attempt if and only if it has a time for it, and has ended if and only if it
-- has an end.

CREATE TYPE "EmailState" AS ENUM ('waiting', 'running', 'retrying', 'failed', 'sent', 'expired');

CREATE TABLE "emails" (
    "id" BIGSERIAL PRIMARY KEY,
    "kind" TEXT NOT NULL,
    "form_id" UUID REFERENCES "forms" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "endpoint_id" UUID,
    "tenant_id" UUID NOT NULL,
    "check_in_date" TIMESTAMPTZ(3) NOT NULL,
    "is_urgent" BOOLEAN NOT NULL DEFAULT false,
    "state" "EmailState" NOT NULL DEFAULT 'waiting',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "crashes" INTEGER NOT NULL DEFAULT 0,
    "last_error" TEXT,
    "next_attempt_at" TIMESTAMPTZ(3) DEFAULT CURRENT_TIMESTAMP,
    "worker_id" TEXT,
    "heartbeat_at" TIMESTAMPTZ(3),
    "ended_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "correlation_id" UUID NOT NULL,
    CONSTRAINT "emails_waits_check" CHECK ((next_attempt_at IS NOT NULL) = (state IN ('waiting', 'retrying'))),
    CONSTRAINT "emails_ended_check" CHECK ((ended_at IS NULL) = (state IN ('waiting', 'running', 'retrying')))
);

CREATE INDEX "emails_due_idx" ON "emails"("tenant_id", "is_urgent", "check_in_date", "id", "next_attempt_at") WHERE (next_attempt_at IS NOT NULL);
CREATE INDEX "emails_unsent_idx" ON "emails"("state", "created_at", "id") WHERE (state <> 'sent');
CREATE INDEX "emails_ended_idx" ON "emails"("ended_at", "id") WHERE (ended_at IS NOT NULL);
CREATE INDEX "emails_form_id_idx" ON "emails"("form_id");

CREATE TYPE "DeliveryState" AS ENUM ('waiting', 'running', 'retrying', 'failed', 'sent', 'expired', 'out_of_scope');

CREATE TABLE "webhook_deliveries" (
    "id" BIGSERIAL PRIMARY KEY,
    "endpoint_id" UUID NOT NULL,
    "event_id" UUID NOT NULL,
    "event_type" TEXT NOT NULL,
    "form_id" UUID REFERENCES "forms" ("id") ON DELETE CASCADE ON UPDATE CASCADE,
    "audit_entry_id" BIGINT,
    "queued_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "is_urgent" BOOLEAN NOT NULL DEFAULT false,
    "state" "DeliveryState" NOT NULL DEFAULT 'waiting',
    "attempts" INTEGER NOT NULL DEFAULT 0,
    "crashes" INTEGER NOT NULL DEFAULT 0,
    "last_error" TEXT,
    "next_attempt_at" TIMESTAMPTZ(3) DEFAULT CURRENT_TIMESTAMP,
    "worker_id" TEXT,
    "heartbeat_at" TIMESTAMPTZ(3),
    "ended_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "correlation_id" UUID NOT NULL,
    "response_status" INTEGER,
    "response_body" TEXT,
    "duration_ms" INTEGER,
    CONSTRAINT "webhook_deliveries_waits_check" CHECK ((next_attempt_at IS NOT NULL) = (state IN ('waiting', 'retrying'))),
    CONSTRAINT "webhook_deliveries_ended_check" CHECK ((ended_at IS NULL) = (state IN ('waiting', 'running', 'retrying')))
);

CREATE INDEX "webhook_deliveries_due_idx" ON "webhook_deliveries"("endpoint_id", "is_urgent", "next_attempt_at") WHERE (next_attempt_at IS NOT NULL);
CREATE INDEX "webhook_deliveries_endpoint_idx" ON "webhook_deliveries"("endpoint_id", "state", "created_at", "event_id");
CREATE INDEX "webhook_deliveries_unsent_idx" ON "webhook_deliveries"("state", "created_at", "id") WHERE (state <> 'sent');
CREATE INDEX "webhook_deliveries_sent_idx" ON "webhook_deliveries"("ended_at") WHERE (state = 'sent');
CREATE INDEX "webhook_deliveries_ended_idx" ON "webhook_deliveries"("ended_at") WHERE (ended_at IS NOT NULL AND state <> 'sent');
CREATE INDEX "webhook_deliveries_form_id_idx" ON "webhook_deliveries"("form_id");

-- Rows leave the indexes of what is due at their beginning, where every claim reads, until VACUUM removes the entries. By default it
-- waits for a fifth of the table, in which rows stay for days.
ALTER TABLE "emails" SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE "webhook_deliveries" SET (autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE "webhook_endpoints" (
    "id" UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    "user_id" UUID,
    "url" TEXT NOT NULL,
    "events" TEXT[],
    "listing_ids" UUID[],
    "secret" BYTEA NOT NULL,
    "previous_secrets" BYTEA[] DEFAULT ARRAY[]::BYTEA[],
    "previous_secrets_until" TIMESTAMPTZ(3)[] DEFAULT ARRAY[]::TIMESTAMPTZ(3)[],
    "disabled_at" TIMESTAMPTZ(3),
    "disabled_reason" TEXT,
    "failing_since" TIMESTAMPTZ(3),
    "paused_until" TIMESTAMPTZ(3),
    "revision" INTEGER NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX "webhook_endpoints_user_id_created_at_id_idx" ON "webhook_endpoints"("user_id", "created_at", "id");
CREATE INDEX "webhook_endpoints_created_at_id_idx" ON "webhook_endpoints"("created_at", "id");

CREATE TABLE "operator_sessions" (
    "hash" BYTEA PRIMARY KEY,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_used_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
);

-- `scoped_forms`: the forms in each user's scope, exact at any time, whatever the isolation level of those who write.
--
-- A scope changes by four events: a form is inserted, moved or deleted; a membership begins, changes its role or ends. Each
-- has a trigger. Writers of forms and writers of memberships meet at the listing's row: the former lock it FOR SHARE, the
-- latter FOR UPDATE, so whichever comes second sees what the first has done. Writers of memberships also update the row, so
-- that a writer of forms with an older snapshot gets a serialization failure. They themselves must read what is committed,
-- hence READ COMMITTED only. A form and a membership inserted by one statement are seen by both triggers, hence
-- ON CONFLICT. Not handled: one statement that both ends a membership and moves a form of its listing.

-- The roles that put a listing in scope. READER is not among them.
CREATE FUNCTION "grants_scope"("role" "MembershipRole") RETURNS BOOLEAN LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN role IN ('OWNER', 'WRITER');

CREATE FUNCTION "scope_new_forms"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id IN (SELECT listing_id FROM new_forms) ORDER BY id FOR SHARE;
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id
    FROM new_forms f JOIN memberships m ON m.listing_id = f.listing_id
    WHERE grants_scope(m.role)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER "scope_inserted" AFTER INSERT ON "forms"
    REFERENCING NEW TABLE AS new_forms FOR EACH STATEMENT EXECUTE FUNCTION "scope_new_forms"();

CREATE FUNCTION "unscope_old_form"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id = OLD.listing_id FOR SHARE;
    DELETE FROM scoped_forms s
    USING memberships m
    WHERE m.listing_id = OLD.listing_id
        AND s.user_id = m.user_id AND s.created_at = OLD.created_at AND s.form_id = OLD.id;
    RETURN OLD;
END $$;

-- Before, because both the forms and the memberships of a deleted listing are gone afterwards.
CREATE TRIGGER "scope_deleted" BEFORE DELETE ON "forms" FOR EACH ROW EXECUTE FUNCTION "unscope_old_form"();

CREATE FUNCTION "scope_moved_form"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id IN (OLD.listing_id, NEW.listing_id) ORDER BY id FOR SHARE;
    DELETE FROM scoped_forms s
    USING memberships m
    WHERE m.listing_id = OLD.listing_id
        AND s.user_id = m.user_id AND s.created_at = OLD.created_at AND s.form_id = OLD.id;
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, NEW.created_at, NEW.id
    FROM memberships m
    WHERE m.listing_id = NEW.listing_id AND grants_scope(m.role)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER "scope_moved" AFTER UPDATE OF "listing_id", "created_at" ON "forms" FOR EACH ROW
    WHEN ((OLD.listing_id, OLD.created_at) IS DISTINCT FROM (NEW.listing_id, NEW.created_at))
    EXECUTE FUNCTION "scope_moved_form"();

-- What every writer of a membership does first. The update changes nothing but the row's version.
CREATE FUNCTION "claim_listings"("ids" UUID[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'memberships change at READ COMMITTED only'
            USING HINT = 'Begin with SET TRANSACTION ISOLATION LEVEL READ COMMITTED.';
    END IF;
    PERFORM FROM listings WHERE id = ANY (ids) ORDER BY id FOR UPDATE;
    UPDATE listings SET title = title WHERE id = ANY (ids);
END $$;

CREATE FUNCTION "scope_new_memberships"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claim_listings(ARRAY(SELECT listing_id FROM new_memberships));
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id
    FROM new_memberships m JOIN forms f ON f.listing_id = m.listing_id
    WHERE grants_scope(m.role)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER "scope_inserted" AFTER INSERT ON "memberships"
    REFERENCING NEW TABLE AS new_memberships FOR EACH STATEMENT EXECUTE FUNCTION "scope_new_memberships"();

CREATE FUNCTION "unscope_old_membership"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claim_listings(ARRAY[OLD.listing_id]);
    DELETE FROM scoped_forms s
    USING forms f
    WHERE f.listing_id = OLD.listing_id
        AND s.user_id = OLD.user_id AND s.created_at = f.created_at AND s.form_id = f.id;
    RETURN OLD;
END $$;

CREATE TRIGGER "scope_deleted" BEFORE DELETE ON "memberships" FOR EACH ROW
    EXECUTE FUNCTION "unscope_old_membership"();

CREATE FUNCTION "scope_changed_role"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claim_listings(ARRAY[NEW.listing_id]);
    IF grants_scope(NEW.role) THEN
        INSERT INTO scoped_forms (user_id, created_at, form_id)
        SELECT NEW.user_id, f.created_at, f.id FROM forms f WHERE f.listing_id = NEW.listing_id
        ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM scoped_forms s
        USING forms f
        WHERE f.listing_id = NEW.listing_id
            AND s.user_id = NEW.user_id AND s.created_at = f.created_at AND s.form_id = f.id;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER "scope_changed" AFTER UPDATE OF "role" ON "memberships" FOR EACH ROW
    WHEN (grants_scope(OLD.role) IS DISTINCT FROM grants_scope(NEW.role))
    EXECUTE FUNCTION "scope_changed_role"();

-- What the service never does, and the triggers above do not handle: refused, or followed by an empty scope.

CREATE FUNCTION "refuse_new_member"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a membership keeps its user and its listing: delete it, and insert another';
END $$;

CREATE TRIGGER "scope_kept" BEFORE UPDATE OF "user_id", "listing_id" ON "memberships" FOR EACH ROW
    WHEN ((OLD.user_id, OLD.listing_id) IS DISTINCT FROM (NEW.user_id, NEW.listing_id))
    EXECUTE FUNCTION "refuse_new_member"();

CREATE FUNCTION "refuse_new_form_id"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a form keeps its id';
END $$;

CREATE TRIGGER "scope_kept" BEFORE UPDATE OF "id" ON "forms" FOR EACH ROW
    WHEN (OLD.id IS DISTINCT FROM NEW.id) EXECUTE FUNCTION "refuse_new_form_id"();

CREATE FUNCTION "empty_scopes"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE scoped_forms;
    RETURN NULL;
END $$;

CREATE TRIGGER "scope_emptied" AFTER TRUNCATE ON "memberships" EXECUTE FUNCTION "empty_scopes"();

CREATE TRIGGER "scope_emptied" AFTER TRUNCATE ON "forms" EXECUTE FUNCTION "empty_scopes"();
