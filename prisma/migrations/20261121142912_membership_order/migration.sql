-- DropIndex
DROP INDEX "memberships_listing_id_idx";

-- DropIndex
DROP INDEX "memberships_user_id_listing_created_at_listing_id_role_idx";

-- CreateIndex
CREATE INDEX "memberships_user_id_listing_created_at_listing_id_idx" ON "memberships"("user_id", "listing_created_at", "listing_id");

-- CreateIndex
CREATE INDEX "memberships_listing_id_user_id_idx" ON "memberships"("listing_id", "user_id");

-- AlterTable
ALTER TABLE "listings" ALTER COLUMN "created_at" SET DEFAULT clock_timestamp();
