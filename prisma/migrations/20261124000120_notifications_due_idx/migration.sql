-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_due_idx" ON "notifications"("check_in_date", "id", "next_attempt_at") WHERE (next_attempt_at IS NOT NULL);
