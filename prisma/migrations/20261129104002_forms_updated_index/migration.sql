-- Locks: forms SHARE UPDATE EXCLUSIVE and reads it

CREATE INDEX CONCURRENTLY "forms_updated_idx" ON "forms" ((coalesce("updated_at", "created_at")));
