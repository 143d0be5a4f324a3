-- Locks: idempotency_keys SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "idempotency_keys_retention_starts_at_idx" ON "idempotency_keys"("retention_starts_at");
