-- Locks: notifications ACCESS EXCLUSIVE
ALTER TABLE "notifications" ADD COLUMN     "check_in_date" TIMESTAMPTZ(3) NOT NULL DEFAULT '-infinity';
