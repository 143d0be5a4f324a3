-- Locks: secret_checks ACCESS EXCLUSIVE
ALTER TABLE "secret_checks" ADD COLUMN     "needed_until" TIMESTAMPTZ(3);
