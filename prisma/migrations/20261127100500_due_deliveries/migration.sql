-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_due_deliveries_idx" ON "notifications"("endpoint_id", "next_attempt_at") WHERE (next_attempt_at IS NOT NULL AND event_id IS NOT NULL);
