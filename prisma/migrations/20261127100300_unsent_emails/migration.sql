-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_unsent_emails_idx" ON "notifications"("next_attempt_at") WHERE (state <> 'sent' AND event_id IS NULL);
