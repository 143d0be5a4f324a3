-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_deliveries_idx" ON "notifications"("endpoint_id", "created_at", "id") WHERE (event_id IS NOT NULL);
