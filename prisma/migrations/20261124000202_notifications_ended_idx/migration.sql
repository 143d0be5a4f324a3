-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_ended_idx" ON "notifications" (greatest("created_at", "heartbeat_at", "sent_at"))
    WHERE state NOT IN ('waiting', 'running', 'retrying');
