-- AlterTable
ALTER TABLE "api_keys" ADD COLUMN     "replaced_by" UUID;

-- AlterTable
ALTER TABLE "forms" ALTER COLUMN "created_at" SET DEFAULT clock_timestamp();
