-- Locks: users ACCESS EXCLUSIVE
ALTER TABLE "users" ADD COLUMN     "external_id" TEXT;
