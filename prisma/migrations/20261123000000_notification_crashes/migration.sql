-- Locks: notifications ACCESS EXCLUSIVE
ALTER TABLE "notifications" ADD COLUMN     "crashes" INTEGER NOT NULL DEFAULT 0;
