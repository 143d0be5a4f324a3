-- Locks: users SHARE UPDATE EXCLUSIVE and reads it
CREATE UNIQUE INDEX CONCURRENTLY "users_external_id_key" ON "users"("external_id");
