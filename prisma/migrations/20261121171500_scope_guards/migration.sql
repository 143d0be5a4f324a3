-- Two things that the triggers of `scoped_forms` do not provide for, and the service never does: a membership that becomes
-- another one is refused, and what is truncated leaves no scope behind.

CREATE FUNCTION "refuse_new_member"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a membership keeps its user and its listing: end it, and begin another';
END $$;

CREATE TRIGGER "scope_kept" BEFORE UPDATE OF "user_id", "listing_id" ON "memberships" FOR EACH ROW
    WHEN ((OLD.user_id, OLD.listing_id) IS DISTINCT FROM (NEW.user_id, NEW.listing_id))
    EXECUTE FUNCTION "refuse_new_member"();

CREATE FUNCTION "empty_scopes"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE scoped_forms;
    RETURN NULL;
END $$;

CREATE TRIGGER "scope_emptied" AFTER TRUNCATE ON "memberships" EXECUTE FUNCTION "empty_scopes"();

CREATE TRIGGER "scope_emptied" AFTER TRUNCATE ON "forms" EXECUTE FUNCTION "empty_scopes"();
