-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_due_emails_idx" ON "notifications"("check_in_date", "id", "next_attempt_at") WHERE (next_attempt_at IS NOT NULL AND event_id IS NULL);
