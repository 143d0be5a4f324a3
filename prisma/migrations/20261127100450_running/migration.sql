-- Locks: notifications SHARE UPDATE EXCLUSIVE and reads it
CREATE INDEX CONCURRENTLY "notifications_running_idx" ON "notifications"("heartbeat_at") WHERE (state = 'running');
