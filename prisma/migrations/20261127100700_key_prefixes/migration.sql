-- Locks: api_keys SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "api_keys_prefix_idx" ON "api_keys"("prefix");
