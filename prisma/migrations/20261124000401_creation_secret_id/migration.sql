-- Locks: creations ACCESS EXCLUSIVE
ALTER TABLE "creations" ADD COLUMN     "secret_id" TEXT;
