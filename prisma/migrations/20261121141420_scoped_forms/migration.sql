-- CreateTable
CREATE TABLE "scoped_forms" (
    "user_id" UUID NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "form_id" UUID NOT NULL,

    CONSTRAINT "scoped_forms_pkey" PRIMARY KEY ("user_id","created_at","form_id")
);

-- What enters or leaves a scope is known by four events: a form is inserted, moved or deleted, a membership begins,
-- changes its role or ends. A writer of forms and a writer of memberships meet at the listing's row: the one shares it
-- (its foreign key does), the other takes it alone. So whichever is second sees what the first has done. A form and a
-- membership that one statement brings are seen by both, hence ON CONFLICT. What the service never does is not provided
-- for: whoever deletes forms, or gives a membership another user or listing, does so while nothing else writes to them.

CREATE FUNCTION "scope_new_forms"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id
    FROM new_forms f JOIN memberships m ON m.listing_id = f.listing_id
    WHERE m.role IN ('OWNER', 'WRITER')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE FUNCTION "unscope_old_form"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM scoped_forms s
    USING memberships m
    WHERE m.listing_id = OLD.listing_id
        AND s.user_id = m.user_id AND s.created_at = OLD.created_at AND s.form_id = OLD.id;
    RETURN OLD;
END $$;

CREATE FUNCTION "scope_moved_form"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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

CREATE FUNCTION "scope_new_memberships"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id IN (SELECT listing_id FROM new_memberships) ORDER BY id FOR UPDATE;
    INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id
    FROM new_memberships m JOIN forms f ON f.listing_id = m.listing_id
    WHERE m.role IN ('OWNER', 'WRITER')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE FUNCTION "unscope_old_membership"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id = OLD.listing_id FOR UPDATE;
    DELETE FROM scoped_forms s
    USING forms f
    WHERE f.listing_id = OLD.listing_id
        AND s.user_id = OLD.user_id AND s.created_at = f.created_at AND s.form_id = f.id;
    RETURN OLD;
END $$;

CREATE FUNCTION "scope_changed_role"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM listings WHERE id = NEW.listing_id FOR UPDATE;
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

CREATE TRIGGER "scope_inserted" AFTER INSERT ON "forms"
    REFERENCING NEW TABLE AS new_forms FOR EACH STATEMENT EXECUTE FUNCTION "scope_new_forms"();

-- Before, for of a deleted listing both its forms and its memberships are gone afterwards.
CREATE TRIGGER "scope_deleted" BEFORE DELETE ON "forms" FOR EACH ROW EXECUTE FUNCTION "unscope_old_form"();

CREATE TRIGGER "scope_moved" AFTER UPDATE OF "listing_id", "created_at" ON "forms" FOR EACH ROW
    WHEN ((OLD.listing_id, OLD.created_at) IS DISTINCT FROM (NEW.listing_id, NEW.created_at))
    EXECUTE FUNCTION "scope_moved_form"();

CREATE TRIGGER "scope_inserted" AFTER INSERT ON "memberships"
    REFERENCING NEW TABLE AS new_memberships FOR EACH STATEMENT EXECUTE FUNCTION "scope_new_memberships"();

CREATE TRIGGER "scope_deleted" BEFORE DELETE ON "memberships" FOR EACH ROW
    EXECUTE FUNCTION "unscope_old_membership"();

CREATE TRIGGER "scope_changed" AFTER UPDATE OF "role" ON "memberships" FOR EACH ROW
    WHEN ((OLD.role = 'READER') IS DISTINCT FROM (NEW.role = 'READER'))
    EXECUTE FUNCTION "scope_changed_role"();

INSERT INTO "scoped_forms" ("user_id", "created_at", "form_id")
SELECT m.user_id, f.created_at, f.id
FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
WHERE m.role IN ('OWNER', 'WRITER');

-- Last, for it keeps readers of forms out.
DROP INDEX "forms_created_at_id_idx";
