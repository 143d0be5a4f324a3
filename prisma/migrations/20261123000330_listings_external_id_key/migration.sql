-- Locks: listings SHARE UPDATE EXCLUSIVE and reads it
CREATE UNIQUE INDEX CONCURRENTLY "listings_external_id_key" ON "listings"("external_id");
