-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_deliveries_idx" ON "notifications"("endpoint_id", "created_at", "event_id") WHERE (endpoint_id IS NOT NULL);
