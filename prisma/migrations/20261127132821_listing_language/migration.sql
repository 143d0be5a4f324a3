-- Locks: listings ACCESS EXCLUSIVE
ALTER TABLE "listings" ADD COLUMN "language" TEXT;
