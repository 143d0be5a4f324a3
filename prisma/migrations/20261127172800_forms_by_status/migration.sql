-- Locks: forms SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "forms_status_created_at_id_idx" ON "forms"("status", "created_at", "id");
