-- Separate from the users: a lock on both tables could deadlock with a request.
-- AlterTable
ALTER TABLE "listings" ADD COLUMN     "external_id" TEXT;
