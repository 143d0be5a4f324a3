-- Locks: listings ACCESS EXCLUSIVE
ALTER TABLE "listings" ADD COLUMN     "external_id" TEXT;
