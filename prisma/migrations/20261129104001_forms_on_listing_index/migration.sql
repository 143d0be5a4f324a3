-- Locks: forms SHARE UPDATE EXCLUSIVE and reads it

-- In the order of lists, followed by what they filter by, so that no form that does not match is read.
CREATE INDEX CONCURRENTLY "forms_listing_idx"
    ON "forms" ("listing_id", "created_at", "id", "status", "external_id", "updated_at", "check_in_date");
