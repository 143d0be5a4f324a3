-- `scoped_forms` exact whatever a transaction's isolation level, so that a list need not ask the membership of each form
-- again. A writer of forms and a writer of memberships still meet at the listing's row; the latter now leaves a mark on
-- it, so that a writer of forms whose snapshot is older is told of a serialization failure rather than not told. The
-- other way round there is nothing that could tell it: memberships change in transactions that see what is committed.
-- Not provided for, as before: one statement that both ends a membership and moves a form of its listing.

-- First, for the reconciliation below must see what those have done that are still writing, whatever its own level. The
-- memberships before the forms, as writers take them.
LOCK TABLE "memberships" IN ACCESS EXCLUSIVE MODE;
LOCK TABLE "forms" IN SHARE ROW EXCLUSIVE MODE;

CREATE FUNCTION "demand_read_committed"() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'memberships change at READ COMMITTED only'
            USING HINT = 'Begin with SET TRANSACTION ISOLATION LEVEL READ COMMITTED.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION "scope_new_forms"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id IN (SELECT listing_id FROM new_forms) ORDER BY id FOR SHARE;
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id
    FROM new_forms f JOIN memberships m ON m.listing_id = f.listing_id
    WHERE m.role IN ('OWNER', 'WRITER')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "unscope_old_form"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id = OLD.listing_id FOR SHARE;
    DELETE FROM scoped_forms s
    USING memberships m
    WHERE m.listing_id = OLD.listing_id
        AND s.user_id = m.user_id AND s.created_at = OLD.created_at AND s.form_id = OLD.id;
    RETURN OLD;
END $$;

CREATE OR REPLACE FUNCTION "scope_moved_form"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id IN (OLD.listing_id, NEW.listing_id) ORDER BY id FOR SHARE;
    DELETE FROM scoped_forms s
    USING memberships m
    WHERE m.listing_id = OLD.listing_id
        AND s.user_id = m.user_id AND s.created_at = OLD.created_at AND s.form_id = OLD.id;
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, NEW.created_at, NEW.id
    FROM memberships m
    WHERE m.listing_id = NEW.listing_id AND m.role IN ('OWNER', 'WRITER')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "scope_new_memberships"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM demand_read_committed();
    PERFORM FROM listings WHERE id IN (SELECT listing_id FROM new_memberships) ORDER BY id FOR UPDATE;
    UPDATE listings SET title = title WHERE id IN (SELECT listing_id FROM new_memberships);
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id
    FROM new_memberships m JOIN forms f ON f.listing_id = m.listing_id
    WHERE m.role IN ('OWNER', 'WRITER')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION "unscope_old_membership"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM demand_read_committed();
    PERFORM FROM listings WHERE id = OLD.listing_id FOR UPDATE;
    UPDATE listings SET title = title WHERE id = OLD.listing_id;
    DELETE FROM scoped_forms s
    USING forms f
    WHERE f.listing_id = OLD.listing_id
        AND s.user_id = OLD.user_id AND s.created_at = f.created_at AND s.form_id = f.id;
    RETURN OLD;
END $$;

CREATE OR REPLACE FUNCTION "scope_changed_role"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM demand_read_committed();
    PERFORM FROM listings WHERE id = NEW.listing_id FOR UPDATE;
    UPDATE listings SET title = title WHERE id = NEW.listing_id;
    IF NEW.role IN ('OWNER', 'WRITER') THEN
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

DROP TRIGGER "scope_changed" ON "memberships";

CREATE TRIGGER "scope_changed" AFTER UPDATE OF "role" ON "memberships" FOR EACH ROW
    WHEN ((OLD.role IN ('OWNER', 'WRITER')) IS DISTINCT FROM (NEW.role IN ('OWNER', 'WRITER')))
    EXECUTE FUNCTION "scope_changed_role"();

CREATE FUNCTION "refuse_new_form_id"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a form keeps its id';
END $$;

CREATE TRIGGER "scope_kept" BEFORE UPDATE OF "id" ON "forms" FOR EACH ROW
    WHEN (OLD.id IS DISTINCT FROM NEW.id) EXECUTE FUNCTION "refuse_new_form_id"();

-- What earlier transactions of another level may have left over, or out.
DELETE FROM scoped_forms s
WHERE NOT EXISTS (
    SELECT FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
    WHERE f.id = s.form_id AND f.created_at = s.created_at
        AND m.user_id = s.user_id AND m.role IN ('OWNER', 'WRITER')
);

INSERT INTO scoped_forms (user_id, created_at, form_id)
SELECT m.user_id, f.created_at, f.id
FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
WHERE m.role IN ('OWNER', 'WRITER')
ON CONFLICT DO NOTHING;
