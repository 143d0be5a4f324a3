-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
-- The sent emails by the time of their last activity.
CREATE INDEX CONCURRENTLY "notifications_sent_emails_idx" ON "notifications" (greatest("created_at", "heartbeat_at", "sent_at"), "id")
    WHERE state = 'sent' AND event_id IS NULL;
