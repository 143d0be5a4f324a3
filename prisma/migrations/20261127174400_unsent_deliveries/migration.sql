-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_unsent_deliveries_idx" ON "notifications"("state", "created_at", "id") WHERE (state <> 'sent' AND event_id IS NOT NULL);
