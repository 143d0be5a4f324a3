-- AlterTable
ALTER TABLE "notifications" ADD COLUMN     "correlation_id" UUID;
