-- Locks: notifications ACCESS EXCLUSIVE
ALTER TABLE "notifications" ADD COLUMN     "correlation_id" UUID;
