-- AlterTable
ALTER TABLE "users" ADD COLUMN     "external_id" TEXT;
