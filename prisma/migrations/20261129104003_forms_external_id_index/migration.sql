-- Locks: forms SHARE UPDATE EXCLUSIVE and reads it

CREATE INDEX CONCURRENTLY "forms_external_id_idx" ON "forms" ("external_id", "created_at", "id") WHERE "external_id" IS NOT NULL;
